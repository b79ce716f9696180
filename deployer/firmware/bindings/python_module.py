"""The Python module of a library: a class over the shared library, by ctypes and numpy alone."""

import hashlib
import keyword
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deployer.codegen.generate import rendered
from deployer.codegen.harness import data_read
from deployer.core.errors import OptionProblem
from deployer.core.ir import Program, TensorType
from deployer.core.kernel import Kernel
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, code, python_string
from deployer.firmware import interface, state
from deployer.firmware.bindings.gradients import GradientsView
from deployer.firmware.interface import PredictionView, TensorView
from deployer.firmware.sources import native_sources
from deployer.firmware.steps import ONCE, TRAIN

OPTION = "--python"
"""The option of a library's command that writes the module."""
MODULES = ("numpy", "deployer")
"""Packages whose names a generated module may not take, beside those of Python's standard library."""
FOLDER = "python"
"""Folder of sources that a shared library has and no board."""
COMPILED = ("src/", "include/", f"{FOLDER}/")
"""Folders of what a shared library is built of."""
REMEDIES = {
    "MACHINE": "build the shared library on the machine that loads it",
    "FLAGS": "build the shared library without CFLAGS that change floats",
    "DUE": "call update() first; drop_passes() discards the passes",
    "EARLY": "call train_step() first",
    "INPUT": "numbers that the model knows, such as labels from 0 to one less than its classes",
    "LOSS": "call drop_passes(), then train with a lower learning rate or other samples",
    "INDEX": "a group below RATES",
    "RATE": "a finite learning rate",
    "SIZE": "the whole image, as save() returned it",
    "FOREIGN": "an image that a library of this model saved",
    "DAMAGED": "another copy of the image",
}
"""Ways out of errors, by the ends of their names in the header."""
_ARRAYS = {kind: f"NDArray[np.{kind}]" for kind in ("float32", "int32", "int8", "uint8")}
_STATUS = re.compile(r"^    \w+_(?:OK|MORE|ERROR_([A-Z]+))\b", re.MULTILINE)
"""A row of the enumeration of results, whose numbers count from 0."""


@dataclass(frozen=True)
class TensorPlace:
    """A tensor in the struct: its name in the model as a literal, element type, shape, and first byte.

    `argument` is its name as a parameter, `array` the type of its arrays, `meaning` what its numbers stand for.
    """

    label: CText
    argument: CText
    dtype: CText
    array: CText
    shape: CText
    at: int
    meaning: CText


@dataclass(frozen=True)
class CallView:
    """A call that reads inputs: its function, parameters, the tuple of their names, inputs, outputs and their type."""

    name: CText
    purpose: CText
    parameters: CText
    arguments: CText
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]
    result: CText
    single: tuple[int, ...]
    several: tuple[int, ...]


@dataclass(frozen=True)
class TrainingParts:
    """Parts of a library that trains, beside predictions: layout of its images, passes per update, rates, gradients."""

    layout: state.StateLayout
    accumulate: int
    rates: int
    gradients: tuple[GradientsView, ...]


@dataclass(frozen=True, eq=False)
class ModuleParts:
    """A library as its module needs it: plan, program, places in words, views of its header, and sizes in bytes."""

    name: CText
    title: CText
    provenance: CText
    plan: Plan
    program: Program
    places: Mapping[str, int]
    inputs: Sequence[TensorView]
    predictions: Sequence[PredictionView]
    struct_bytes: int
    training: TrainingParts | None


def check_module(name: str, has_ring: bool) -> None:
    """Raise OptionProblem for a name by which Python would find another module, or none, and for a latent replay."""
    if has_ring:
        cause = f"{OPTION} has no functions for the ring of a latent replay"
        raise OptionProblem(cause, hint="leave one of them out")
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in MODULES:
        kind = "a keyword" if keyword.iskeyword(name) else "a module"
        hint = f"--name {name}_net, for example; or leave {OPTION} out"
        raise OptionProblem(f"--name {name!r} is {kind} of Python, and {OPTION} makes a module of that name", hint=hint)


def python_files(parts: ModuleParts, files: Mapping[str, str | bytes]) -> dict[str, str]:
    """The module and the source that a shared library has in addition, by their paths; `files` are the library's."""
    view = _View(parts, files)
    return {
        f"{parts.name}.py": rendered("firmware/python_module.py", view),
        f"{FOLDER}/{parts.name}_build.c": rendered("firmware/python_build.c", view),
    }


def native_kernels(
    kernels: Collection[Kernel], name: str, needed: Iterable[str], portable: Mapping[str, str]
) -> dict[str, str]:
    """Sources for a computer's vectors by their paths; a shared library has them in place of `portable` ones."""
    return {f"{FOLDER}/{file}": text for file, text in native_sources(kernels, name, needed, portable).items()}


def shared_paths(sources: Sequence[str], native: Mapping[str, str], name: str) -> tuple[CText, ...]:
    """Paths of all that a shared library is built of, without their `.c`."""
    paths = [f"{FOLDER if f'{FOLDER}/{source}.c' in native else 'src'}/{source}" for source in sources]
    return tuple(map(code, (*paths, f"{FOLDER}/{name}_build")))


class _View:
    """All that the module's template prints."""

    def __init__(self, parts: ModuleParts, files: Mapping[str, str | bytes]) -> None:
        self.name, self.upper = parts.name, code(parts.name.upper())
        self.title, self.provenance, self.struct_bytes = parts.title, parts.provenance, parts.struct_bytes
        self.build = _digest(files)
        header = str(files[f"include/{parts.name}.h"])
        results = header[header.index("typedef enum {") :].partition("}")[0]
        names = [found[1] for found in _STATUS.finditer(results)]
        self.remedies = tuple(
            (names.index(name), python_string(text)) for name, text in REMEDIES.items() if name in names
        )
        arguments = [_argument(view.name) for view in parts.inputs]
        read = dict(zip(data_read(parts.plan), arguments, strict=True))
        meanings = dict(zip(read, (view.meaning for view in parts.inputs), strict=True))
        self._parts, self._arguments, self._meanings = parts, read, meanings
        self.inputs = tuple(map(self._place, read))
        self.predictions = tuple(self._prediction(view) for view in parts.predictions)
        made = parts.training
        self.trains = ONCE if made else ()
        self.train = (self._call(code("train_step"), code(""), TRAIN, ()),) if made else ()
        self.calls = (*self.train, *self.predictions)
        self.typing = code("Any, Final, Literal, NamedTuple, TypeAlias" if made else "Any, Final, NamedTuple")
        self.accumulate, self.rates = (made.accumulate, made.rates) if made else (0, 0)
        self.gradients = made.gradients if made else ()
        kept = made.layout.kept if made else ()
        self.weights, self.others = (
            tuple(self._place(k.home.storage) for k in kept if k.is_weight == weights) for weights in (True, False)
        )
        sizes = made.layout.most if made else ()
        self.images = tuple(
            (python_string(kind), number, most)
            for number, (kind, most) in enumerate(zip(state.KINDS, sizes, strict=False))
        )
        self.kinds = code(", ".join(f'"{kind}"' for kind in state.KINDS))
        self.first_kind = python_string(state.KINDS[state.STATE])
        self.first_prediction = ONCE if self.predictions else ()

    def _place(self, name: str) -> TensorPlace:
        parts = self._parts
        kind: TensorType = _type_of(parts, name)
        return TensorPlace(
            python_string(name),
            self._arguments.get(name, code("")),
            code(kind.dtype),
            code(_ARRAYS[kind.dtype]),
            _tuple_of(map(str, kind.shape)),
            state.WORD * parts.places[parts.plan.storage_of.get(name, name)],
            self._meanings.get(name, code("")),
        )

    def _prediction(self, view: PredictionView) -> CallView:
        graph = next(graph for graph, (function, *_) in interface.PREDICTIONS.items() if function == view.name)
        outputs = tuple(self._place(name) for name in interface.outputs_of(graph, self._parts.program))
        return self._call(view.name, view.purpose, graph, outputs)

    def _call(self, name: CText, purpose: CText, graph: str, outputs: tuple[TensorPlace, ...]) -> CallView:
        read = [row for row in self._arguments if row in self._parts.program.data_of(graph)]
        inputs = tuple(map(self._place, read))
        parameters = "".join(f", {row.argument}: {row.array} | None = None" for row in inputs)
        arrays = [row.array for row in outputs]
        result = arrays[0] if len(arrays) == 1 else f"tuple[{', '.join(arrays)}]"
        single, several = (ONCE, ()) if len(outputs) == 1 else ((), ONCE)
        return CallView(
            name,
            purpose,
            code(parameters),
            _tuple_of(row.argument for row in inputs),
            inputs,
            outputs,
            code(result),
            single,
            several,
        )


def _type_of(parts: ModuleParts, name: str) -> TensorType:
    """The type of a tensor of the program, or of one beside it."""
    if name in parts.program.tensors:
        return parts.program.tensors[name].type
    assert parts.training is not None
    return next(kept.home.type for kept in parts.training.layout.kept if kept.home.storage == name)


def _tuple_of(items: Iterable[str]) -> CText:
    """A tuple of names or numbers."""
    texts = list(items)
    return code(f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})")


def _argument(suffix: str) -> CText:
    """A name in C as a parameter's: no keyword, no digit at its begin."""
    safe = f"x_{suffix}" if suffix[:1].isdigit() else suffix
    return code(f"{safe}_" if keyword.iskeyword(safe) or safe == "self" else safe)


def _digest(files: Mapping[str, str | bytes]) -> CText:
    """The digest of all that is compiled, by which the module knows the shared library of its own sources."""
    compiled = sorted(path for path in files if path.startswith(COMPILED))
    return code(hashlib.sha256("".join(f"{path}\n{files[path]!r}\n" for path in compiled).encode()).hexdigest())
