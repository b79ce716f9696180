"""Compares the interpreter with ONNX Runtime on a model; excuses.toml lists the accepted differences."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from deployer.core.errors import UserError
from deployer.core.ir import Node, Program
from deployer.core.operator import file_of, numerics_of, registry
from deployer.frontend import check, parse
from deployer.verify.reference import Memory, Trace, run_graph, run_inference
from DeployTest.support.tolerances import table

from .draw import Draw
from .trial import Finding, Trial

Array = np.ndarray
HERE = Path(__file__).resolve().parent
WIDE = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
WIDE |= {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
WIDE |= {f"tensor({name})": np.dtype(name).type for name in ("int8", "uint8", "int16", "uint16", "uint32", "uint64")}
HALF = "tensor(float16)"
NARROW = re.compile(r"tensor\(u?int(8|16)\)")


@dataclass(frozen=True)
class Excuse:
    """An accepted difference from ONNX Runtime: a pattern in its message or in the model, and the reason."""

    sort: str
    pattern: str
    reason: str


@cache
def excuses() -> tuple[Excuse, ...]:
    """The committed list; CUSTOM stands for any operator that has a form of its own in `com.microsoft`."""
    rows = tomllib.loads((HERE / "excuses.toml").read_text())["excuse"]
    custom = "|".join(
        name for name, op in registry().items() if file_of(op).custom is not None or not onnx.defs.has(name)
    )
    return tuple(Excuse(row["sort"], row["pattern"].replace("CUSTOM", f"({custom})"), row["reason"]) for row in rows)


def excused(sort: str, text: str) -> str:
    """The reason of the first excuse whose pattern is in the text, or nothing."""
    return next((e.reason for e in excuses() if e.sort == sort and re.search(e.pattern, text)), "")


def session(model: Path) -> onnxruntime.InferenceSession:
    """A session on one thread that says nothing."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options)


def _what_counts(path: Path) -> Path:
    """The model without nodes and initializers whose values nobody reads, and without declared types of values in
    between: to the compiler the first mean nothing, and the second follow from the nodes.

    It lies beside the file, for the sake of external data.
    """
    model = onnx.load(path, load_external_data=False)
    makers = {name: node for node in model.graph.node for name in node.output if name}
    read = {output.name for output in model.graph.output}
    unvisited = list(read)
    while unvisited:  # in no order: a file's nodes may stand in any
        node = makers.get(unvisited.pop())
        new = {name for name in _reads(node) if name not in read} if node is not None else set()
        read |= new
        unvisited.extend(sorted(new))
    live = [node for node in model.graph.node if read.intersection(filter(None, node.output))]
    held = [tensor for tensor in model.graph.initializer if tensor.name in read]
    if len(live) == len(model.graph.node) and len(held) == len(model.graph.initializer) and not model.graph.value_info:
        return path
    for field, kept in ((model.graph.node, live), (model.graph.initializer, held)):
        copies = [type(x).FromString(x.SerializeToString()) for x in kept]
        del field[:]
        field.extend(copies)
    del model.graph.value_info[:]
    what_counts = path.with_name("what-counts.onnx")
    what_counts.write_bytes(model.SerializeToString())
    return what_counts


def _reads(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, in its inner graphs too, which name values of the graph around them."""
    inner = [part for attribute in node.attribute for part in (attribute.g, *attribute.graphs)]
    outputs = {output.name for graph in inner for output in graph.output}
    return {*node.input, *outputs, *(name for graph in inner for part in graph.node for name in _reads(part))}


def compare(trial: Trial, program: Program, model: Path, feeds: Mapping[str, Array], shown: str) -> str:
    """Run an accepted inference model both ways; Finding where they differ. `shown` lists the model's nodes.

    Returns what the comparison was: `equal`, or why there was none.
    """
    trial.phase("onnxruntime")
    try:
        runtime = session(_what_counts(model))
    except Exception as error:  # ONNX Runtime has no common type of its errors
        return _refused(str(error), shown)
    finally:
        trial.phase("")
    kinds = {x.name: x.type for x in runtime.get_inputs()}
    unread = {
        x.name: np.zeros([n if isinstance(n, int) else 1 for n in x.shape])
        for x in runtime.get_inputs()
        if x.name not in program.tensors
    }
    inputs = _inputs(trial.draw("feeds"), program, kinds, {**unread, **feeds})
    names = [x.name for x in runtime.get_outputs()]
    trial.phase("onnxruntime")
    try:
        runtime_feeds = {n: _wide(inputs[n], kinds[n]) for n in kinds if n in inputs}
        expected = dict(zip(names, runtime.run(None, runtime_feeds), strict=True))
    except Exception as error:  # as above
        return _refused(str(error), shown)
    finally:
        trial.phase("")
    half = HALF in {*kinds.values(), *(x.type for x in runtime.get_outputs())} or "FLOAT16" in shown
    with np.errstate(all="ignore"):
        _check(program, inputs, expected, half, shown, model)
    return "equal to onnxruntime"


def _refused(message: str, shown: str) -> str:
    line = " ".join(message.split())
    reason = excused("refused", f"{line}\n{shown}")
    if reason:
        return f"onnxruntime refuses: {reason}"
    raise Finding("onnxruntime refuses", f"{_code(line)}\n{re.sub(r'0x[0-9a-f]+', '', line)[:400]}\n{shown}")


def _code(line: str) -> str:
    """The part of a message that names the fault, without names and numbers."""
    end = re.split(r"failed:|, Error |Status Message: |is an invalid model\. ", line)[-1]
    end = re.sub(r"(attribute|operator|registered for|op):? \S+", r"\1 _", end)
    return " ".join(re.sub(r"\([^)]*\)|'[^']*'|\S*/\S*|\b[nov]\d+\w*", "", end).split()[:12])


def _inputs(draw: Draw, program: Program, kinds: Mapping[str, str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """A value for each data input: the one that came with the model where it fits, else one drawn."""
    arrays: dict[str, Array] = {}
    read = {program.storage(name) for name in program.outputs}
    read |= {name for node in program.nodes for name in node.inputs}
    for name in dict.fromkeys([*program.data, *kinds]):
        if name not in program.tensors:
            shape: tuple[int, ...] = feeds[name].shape if name in feeds else (1,)
        else:
            shape = program.tensors[name].type.shape
        if "int" in kinds.get(name, "") and name not in read:
            arrays[name] = np.zeros(feeds[name].shape if name in feeds else shape, np.int32)
            continue  # what only ONNX Runtime reads it may take for a place in a tensor
        integer = name in program.tensors and program.tensors[name].type.dtype != "float32"
        array = np.asarray(feeds[name]) if name in feeds else draw.array(shape)
        array = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
        if kinds.get(name) == HALF:
            array = array.astype(np.float16)
        if kinds.get(name) == "tensor(bool)":
            array = array.astype(np.bool_)
        arrays[name] = np.abs(array).astype(np.int32) % 3 if integer and name not in feeds else array
        if NARROW.match(kinds.get(name, "")):  # a sample of that type holds no other numbers
            arrays[name] = _wide(arrays[name].astype(np.int64), kinds[name])
        arrays[name] = arrays[name].astype(np.int32 if integer else np.float32)
    return _in_range(program, arrays)


def _in_range(program: Program, arrays: dict[str, Array]) -> dict[str, Array]:
    """The values with numbers that choose among those there are: a sample with others is refused where it is read."""
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for node in program.nodes:
        found = numerics_of(node).indices(node, types)
        name = program.storage(found.input) if found else ""
        if found and name in arrays:
            count, least = (min(found.sizes), 0) if found.sizes else (found.count, found.least)
            chosen = (arrays[name] - least) % count + least
            arrays[name] = np.where(arrays[name] == found.ignored, arrays[name], chosen).astype(arrays[name].dtype)
    return arrays


def _wide(array: Array, kind: str) -> Array:
    return np.asarray(array).astype(WIDE.get(kind, np.float32))


def _check(
    program: Program,
    inputs: Mapping[str, Array],
    expected: Mapping[str, Array],
    half: bool,
    shown: str,
    model: Path,
) -> None:
    data = {n: inputs[n] for n in program.data}
    narrow, exact = (run_inference(program, data, dtype) for dtype in (np.float32, np.float64))
    for name in program.outputs:
        if name not in expected:
            raise Finding("different", f"output {name!r} is unknown to onnxruntime\n{shown}")
        difference = unequal(narrow[name], exact[name], np.asarray(expected[name]), half)
        if not difference:
            continue
        twin, given = _unfolded(program, data, model)
        if magnified(twin, given, name, exact[name], np.asarray(expected[name])):
            continue
        text = "\n".join([shown, *_nan_lines(twin, given)])
        if not excused("different", f"{difference}\n{text}"):
            raise Finding("different", f"{_ops(shown)}: output {name!r} {difference}\n{text}")


def _nan_lines(program: Program, data: Mapping[str, Array]) -> list[str]:
    """A line for each data input and each result that has a NaN in float32."""
    memory, found = Memory(program, np.float32), []
    memory.update(data)

    def trace(node: Node, results: Sequence[Array]) -> None:
        found.extend(
            n for n, x in zip(node.outputs, results, strict=False) if x.dtype.kind == "f" and np.isnan(x).any()
        )

    run_graph(program.graphs[0], memory, trace)
    given = [name for name, x in data.items() if np.isnan(x).any()]
    return [f"nan in {name}" for name in (*given, *found)]


def _unfolded(program: Program, data: Mapping[str, Array], model: Path) -> tuple[Program, Mapping[str, Array]]:
    """A program whose float constants are inputs, with their values, so that noise reaches what was folded as well.

    Those that must be constants, as scales are, stay so; all stay where the file's bytes lie elsewhere.
    """
    file = onnx.load(model, load_external_data=False)
    floats = [t for t in file.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    if any(t.external_data for t in floats):
        return program, data
    freed = file
    for tensor in floats:
        twin = onnx.ModelProto.FromString(freed.SerializeToString())
        others = [t for t in twin.graph.initializer if t.name != tensor.name]
        del twin.graph.initializer[:]
        twin.graph.initializer.extend(others)
        if tensor.name not in {x.name for x in twin.graph.input}:
            twin.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        path = model.with_name("unfolded.onnx")
        path.write_bytes(twin.SerializeToString())
        try:
            program, freed = check.check_program(parse.read_graphs(path, None)), twin
        except UserError:
            continue
    values = {t.name: numpy_helper.to_array(t) for t in floats} | dict(data)
    return program, {name: values[name] for name in program.data}


def magnified(program: Program, data: Mapping[str, Array], name: str, exact: Array, other: Array) -> bool:
    """Whether noise of one rounding in every float result moves an output as far as the other one lies.

    The noise is a float32 unit roundoff of the largest operand or result of the node, as sums have; what only such
    a graph magnifies, at a pole or by cancellation, is no difference of meaning. An integer or a truth must be one that
    a run with noise, or without, has there: as the place of one of several results that rounding alone tells apart.
    """
    sizes: list[float] = []
    runs = [memory[name].astype(np.float64) for memory in _noisy_runs(program, data, sizes)]
    if exact.dtype.kind != "f":
        return bool(np.array([exact == other, *(run == other for run in runs)]).any(0).all())
    # An element of which the noise leaves no digit may as well be infinite elsewhere: it lies at a pole.
    changes = np.array([np.isfinite(run) != np.isfinite(exact) for run in runs]).any(0)
    changes |= np.array([np.abs(run - exact) >= np.abs(exact) for run in runs]).any(0) & ~np.isfinite(other)
    if max(sizes, default=0.0) > table()["fuzz"]["overflow"]:  # a sum in another order may be beyond float32
        changes |= ~np.isfinite(other)
    wild = changes | ~np.isfinite(exact)
    if (~np.isfinite(other) & ~wild).any() or other.dtype.kind != "f":
        return False
    settled = wild & ~changes  # infinite or NaN whatever the noise: so it must be elsewhere
    if not np.array_equal(exact[settled], other[settled], equal_nan=True):
        return False
    moved = np.array([np.abs(np.where(wild, 0, run - np.where(wild, 0, exact))) for run in runs]).max(0)
    distance = np.abs(np.where(wild, 0, other) - np.where(wild, 0, exact))
    return bool((distance <= table()["fuzz"]["float32"]["rounding"] * moved.max(initial=0.0)).all())


def moved_by_noise(program: Program, data: Mapping[str, Array], exact: Mapping[str, Array]) -> float:
    """Return the largest finite change of the outputs under noise of one rounding in every float result."""
    with np.errstate(all="ignore"):
        moves = [
            np.abs(memory[name] - exact[name]) for memory in _noisy_runs(program, data, []) for name in program.outputs
        ]
    return max(float(move[np.isfinite(move)].max(initial=0.0)) for move in moves)


def _noisy_runs(program: Program, data: Mapping[str, Array], sizes: list[float]) -> Iterator[Memory]:
    """Yield the memory after some runs with noise; `sizes` gets the sizes of operands and results."""
    generator = np.random.default_rng(0)
    for _ in range(NOISY):
        memory = Memory(program, np.float64)
        memory.update(data)
        run_graph(program.graphs[0], memory, _noise(memory, generator, sizes))
        yield memory


def _noise(memory: Memory, generator: np.random.Generator, largest: list[float]) -> Trace:
    """Add noise to each float result, and the size of it to `largest`."""

    def trace(node: Node, results: Sequence[Array]) -> None:
        operands = [memory[n] for n in node.inputs if n]
        sizes = [
            float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (*operands, *results) if x.dtype.kind == "f"
        ]
        largest.extend(sizes)
        for output, result in zip(node.outputs, results, strict=False):
            if output and result.dtype.kind == "f":
                sign = generator.choice((-1.0, 0.0, 1.0), result.shape)
                terms = max((x.size for x in operands), default=0) / max(result.size, 1)
                unit = max(1.0, math.sqrt(terms / SHORT)) * np.finfo(np.float32).eps / 2
                memory[output] = result + sign * max(sizes, default=0.0) * unit

    return trace


SHORT = 256
"""Terms of a sum whose rounding, about the root of them, the bound's factor allows; longer sums have more."""
NOISY = 8
"""Runs with noise: an element at a pole escapes all of them once in 26."""


def _ops(shown: str) -> str:
    return "+".join(sorted({line.split()[0] for line in shown.splitlines()}))


def unequal(narrow: Array, exact: Array, other: Array, half: bool) -> str:
    """Describe the difference of another float32 result from ours; empty if it is rounding."""
    if narrow.shape != other.shape:
        return f"has shape {list(narrow.shape)}, onnxruntime's {list(other.shape)}"
    if narrow.dtype.kind != "f":
        same = np.array_equal(narrow.astype(np.int64), other.astype(np.int64))
        return "" if same else f"is {_few(narrow)}, onnxruntime's {_few(other)}"
    figures = table()["fuzz"]["half" if half else "float32"]
    narrow, other = narrow.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(narrow) & np.isfinite(exact) & np.isfinite(other)
    special = np.isnan(narrow) != np.isnan(other)
    special |= np.isinf(narrow) & np.isinf(other) & (narrow != other)
    special |= np.isinf(narrow) != np.isinf(other)
    limit = table()["fuzz"]["overflow"]
    special &= ~((np.abs(np.nan_to_num(exact)) > limit) | half)
    if special.any():
        return f"is {narrow[special][0]}, onnxruntime's {other[special][0]}"
    if not finite.any():
        return ""
    a, e, b = narrow[finite], exact[finite], other[finite]
    rounding = np.abs(a - e).max(initial=0.0)
    allowed = figures["atol"] + figures["rtol"] * np.abs(e).max(initial=0.0) + figures["rounding"] * rounding
    at = int(np.argmax(np.abs(b - e)))
    return "" if abs(b[at] - e[at]) <= allowed else f"is {a[at]:.9g} (float64 {e[at]:.9g}), onnxruntime's {b[at]:.9g}"


def _few(array: Array) -> str:
    return str(array.reshape(-1)[:6].tolist())
