"""What exporters do to the parameters of a module, as far as a file shows it: other training than was meant."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from deployer.core.errors import DeployerWarning, FileProblem
from deployer.core.operator import operator_of
from deployer.core.safe_text import listed
from deployer.training.forward import Forward

INVENTED = re.compile(r"onnx::(\w+)_\d+|const_fold_opt__\d+")
"""Names that PyTorch's exporter by TorchScript, and tf2onnx, give to tensors that they computed on the way."""
KEEPING = (
    "`deployer.torch` takes a module as it is; torch.onnx.export keeps its parameters by (..., dynamo=False,"
    " training=TrainingMode.TRAINING, do_constant_folding=False), and without batch norms by (..., dynamo=True,"
    " optimize=False)"
)
MOST_BYTES = 1 << 20
LINES = "names of parameters, one per line"


def oddities(model: Forward, parameters: Sequence[str], expected: Sequence[str]) -> Iterator[DeployerWarning]:
    """A warning for each sign that the parameters to train are not those of the module that was exported.

    Exporters write equal tensors once, so that two norms of ones become one; they fold batch norms into the layer
    before, under a name of their own, or write them as they are in use; they leave out biases of zeros.
    `expected` are the names that the module's parameters have.
    """
    names = set(parameters)
    for name in parameters:
        readers = [node for node in model.raw.nodes if name in node.inputs]
        array = model.raw.constants[name].array
        if len(readers) > 1 and array.size > 1 and (array == array.flat[0]).all():
            facts = [("read by", listed([f"{node.name!r} ({node.op})" for node in readers]))]
            facts += [("values", f"{array.size}, all {array.flat[0]:g}")]
            cause = f"{name!r} has equal values, and several nodes train it as one tensor"
            yield DeployerWarning(cause, facts, KEEPING)
    invented = [name for name in parameters if INVENTED.fullmatch(name)]
    if invented:
        facts = [("parameters", listed(list(map(repr, invented))))]
        facts += [("as where", "a batch norm was folded, a weight was turned, or a number that is no parameter")]
        hint = f"--trainable, where they are none; {KEEPING}"
        yield DeployerWarning("parameters have names of the exporter's: it computed them from others", facts, hint)
    still = [n for n in model.raw.nodes if operator_of(n).is_in_use(n) and not names.isdisjoint(n.inputs)]
    if still:
        facts = [("nodes", listed([f"{node.name!r} ({node.op})" for node in still]))]
        cause = "norms have the form of inference: their parameters are trained with statistics that stand still"
        yield DeployerWarning(cause, facts, f"--trainable, where that is meant; {KEEPING}")
    missing = sorted(set(expected) - set(model.initializers))
    if missing:
        facts = [("missing", listed(list(map(repr, missing)))), ("expected", f"{len(expected)} parameters")]
        cause = "the file lacks parameters of the module: they were folded, merged or left out"
        yield DeployerWarning(cause, facts, KEEPING)


def read_names(path: Path) -> tuple[str, ...]:
    """The names in a text file, one per line; FileProblem where it has none, or is no text."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        names = tuple(line.strip() for line in content.decode().splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise FileProblem(f"{path} is no text", [("cause", str(error)[:200])], LINES) from None
    if not names or len(content) > MOST_BYTES:
        raise FileProblem(f"{path} has no names, or more than {MOST_BYTES} bytes", hint=LINES)
    return names
