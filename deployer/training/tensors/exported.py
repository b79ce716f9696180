"""Changes that exporters make to a module's parameters, as far as a file shows them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deployer.core.errors import DeployerWarning, FileProblem
from deployer.core.files.reading import text_of
from deployer.core.ir import Node
from deployer.core.operator import training_of
from deployer.core.safe_text import listed
from deployer.training.forward import Forward
from deployer.training.tensors.origins import COMPUTED, KEEPING, PARAMETER, Origin, mentions, traced
from deployer.training.tensors.selection import Expected
from deployer.training.tensors.uses import is_uniform

MOST_BYTES = 1 << 20
LINES = "names of parameters, one per line; or an .npz or .safetensors file with their numbers"
BIAS = "_bias"
"""The end of the name of a bias, beside that of its layer's weight."""


def lint(model: Forward, parameters: Sequence[str], expected: Expected) -> Iterator[DeployerWarning]:
    """A warning for each sign that the parameters to train are not those of the module that was exported.

    Exporters write equal tensors once, so that two norms of ones become one; they fold batch norms into the layer
    before, under its own name or under one of theirs, or write them as they are in use; they leave out biases of zeros.
    `expected` are the names that the module's parameters have; with their numbers all of them have been found.
    """
    signs = _Signs(model, parameters)
    known = isinstance(expected, Mapping)
    yield from signs.merged()
    yield from signs.folded()
    if not known:
        yield from signs.computed()
        yield from signs.left_out()
    yield from signs.in_use()
    missing = [] if known else sorted(set(expected) - set(model.initializers))
    if missing:
        facts = [("missing", listed(list(map(repr, missing)))), ("expected", f"{len(expected)} parameters")]
        cause = "the file lacks parameters of the module: they were renamed, folded, merged or left out"
        hint = f"--parameters with their numbers, an .npz or .safetensors file, which finds renamed ones; {KEEPING}"
        yield DeployerWarning(cause, facts, hint)


class _Signs:
    """Signs in a file that its exporter changed parameters that are trained."""

    def __init__(self, model: Forward, parameters: Sequence[str]) -> None:
        self.model, self.parameters, self.origins = model, parameters, model.origins
        self.claimed = {traced(name) for name in model.initializers}
        self.readers: dict[str, list[Node]] = {name: [] for name in parameters}
        for node in model.raw.nodes:
            for name in node.inputs:
                if name in self.readers:
                    self.readers[name].append(node)

    def merged(self) -> Iterator[DeployerWarning]:
        """Several parameters may be one tensor, as they began alike."""
        for name in self.parameters:
            array, nodes = self.model.raw.constants[name].array, self.readers[name]
            if len(nodes) < 2 or array.size < 2:
                continue
            told = [self._origin(node) for node in nodes]
            strange = [bool(o.parameters - self.claimed) and not mentions(o, name) for o in told]
            calls = {o.parameters - self.claimed for o in told}
            proven = any(strange) and traced(name) in self.origins.parameters
            proven |= len(calls - {frozenset()}) > 1 and traced(name) not in self.origins.parameters
            if proven or (is_uniform(array) and not self._is_told(nodes)):
                facts = [("read by", listed([f"{node.name!r} ({node.op})" for node in nodes]))]
                numbers = f"all {array.flat[0]:g}" if is_uniform(array) else "different ones"
                facts += [("values", f"{array.size}, {numbers}")]
                cause = f"{name!r} has equal values, and several nodes train it as one tensor"
                yield DeployerWarning(cause, facts, KEEPING)

    def _is_told(self, nodes: Sequence[Node]) -> bool:
        """Whether the exporter is one that says which parameters nodes read, or reads merged ones by another node."""
        by_path = all(node.name.startswith("/") for node in nodes)
        return self.origins.by_pytorch and (bool(self.origins.parameters) or by_path)

    def _origin(self, node: Node) -> Origin:
        return self.origins.of(node.name)

    def folded(self) -> Iterator[DeployerWarning]:
        """Batch norms became a part of the layer before them."""
        found = []
        for node in self.model.raw.nodes:
            origin = self._origin(node)
            read = [name for name in node.inputs if name in self.readers]
            layer = read and not training_of(node).is_in_use(node) and "Normalization" not in node.op
            made_bias = any(name.endswith(BIAS) and name.removesuffix(BIAS) in node.inputs for name in node.inputs)
            if layer and (origin.folds_norm or ("batchnorm" in origin.classes.lower()) or made_bias):
                found.append(f"{node.name!r} ({node.op}) with {', '.join(map(repr, read))}")
        if found:
            cause = "batch norms were folded into layers: their weights are trained, not those of layers and norms"
            yield DeployerWarning(cause, [("layers", listed(found))], f"--trainable, if that is intended; {KEEPING}")

    def computed(self) -> Iterator[DeployerWarning]:
        """A tensor has a name of the exporter's: it may be no parameter as it is."""
        invented = [name for name in self.parameters if self._is_computed(name)]
        if invented:
            facts = [("parameters", listed(list(map(repr, invented))))]
            facts += [("as where", "a norm was folded, a weight was turned, or a number that is not a parameter")]
            hint = f"--parameters with their numbers, as an .npz or .safetensors file; --trainable; {KEEPING}"
            yield DeployerWarning("parameters have names of the exporter's: it computed them from others", facts, hint)

    def _is_computed(self, name: str) -> bool:
        if not self.origins.parameters:
            return bool(COMPUTED.fullmatch(name))
        if traced(name) in self.origins.parameters:
            return False
        origins = [self._origin(node) for node in self.readers[name]]
        folded = any(origin.folds_norm for origin in origins)
        return not folded and any(not origin.parameters - self.claimed for origin in origins)

    def left_out(self) -> Iterator[DeployerWarning]:
        """A bias of zeros is not in the file."""
        lost: set[str] = set()
        for node in self.model.raw.nodes:
            origin = self._origin(node)
            own = not self.claimed.isdisjoint(map(traced, node.inputs))  # not weights of 8 bits
            if own and origin.lost_bias and not origin.folds_norm:
                lost |= {name for name in origin.parameters - self.claimed if name.endswith(BIAS)}
        if lost:
            facts = [("parameters", listed([repr(name.removeprefix(PARAMETER)) for name in sorted(lost)]))]
            facts += [("names", "as the exporter has them, dots written as underscores")]
            yield DeployerWarning("the exporter left out biases of zeros, which are not trained", facts, KEEPING)

    def in_use(self) -> Iterator[DeployerWarning]:
        """Norms have the form in which their statistics stand still."""
        nodes = [n for n in self.model.raw.nodes if training_of(n).is_in_use(n)]
        still = [n for n in nodes if not self.readers.keys().isdisjoint(n.inputs)]
        if still:
            facts = [("nodes", listed([f"{node.name!r} ({node.op})" for node in still]))]
            cause = "norms are in inference mode: their parameters are trained with fixed statistics"
            yield DeployerWarning(cause, facts, f"--trainable, if that is intended; {KEEPING}")


def read_names(path: Path) -> tuple[str, ...]:
    """The names in a text file, one per line; FileProblem where it has none, or is no text."""
    text = text_of(path, MOST_BYTES, LINES)
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not names:
        raise FileProblem(f"{path} has no names", hint=LINES)
    return names
