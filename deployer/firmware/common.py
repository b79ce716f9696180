"""Parts that all libraries share: build files, steps, constants, and what their templates print of them."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import deployer
from deployer.codegen.c_names import Names
from deployer.codegen.generate import TEMPLATES, rendered
from deployer.codegen.render import ConstantView
from deployer.core import target as targets
from deployer.core.artefact import digest
from deployer.core.errors import OptionProblem
from deployer.core.files.bill import LICENCE
from deployer.core.ir import DTYPES, Program
from deployer.core.plan import Home, Plan, Schedule, target_of
from deployer.core.safe_text import CText, c_comment, code, json_text, markdown_code
from deployer.core.target import Target, Toolchain
from deployer.firmware import interface, state
from deployer.firmware.bill import BILL, library_bill
from deployer.firmware.bindings.python_module import (
    ModuleParts,
    TrainingParts,
    native_kernels,
    python_files,
    shared_paths,
)
from deployer.firmware.byte_inputs import InputScale
from deployer.firmware.memory import FROZEN, MemoryLayout
from deployer.firmware.pages import listed
from deployer.firmware.prediction import FEATURES
from deployer.firmware.sources import FLAGS, kernel_sources, library_rules, source_proof
from deployer.firmware.steps import ACCESSORS, ONCE, TRAIN, StepsView, steps_view

GRAPHS = {
    TRAIN: "train_graph",
    **{graph: f"{function}_graph" for graph, (function, *_) in interface.PREDICTIONS.items()},
    FEATURES: "features_graph",
    "optimizer": "optimizer_graph",
}
"""The functions that run the graphs of a plan."""
VENDOR = "deployer"
"""Vendor of a pack for CMSIS."""
KEYWORDS = ("neural network", "machine learning", "on-device", "C11")
"""Words by which registries of libraries find one."""
OWN_FMA_SOURCE = "fma_f32.c"
_PROOF = re.compile(r"^EXACT_FLAGS\((\w+)\)$", re.MULTILINE)
"""The function by which a source shows its flags."""
NEEDED = ("exact_f32.h", FLAGS, OWN_FMA_SOURCE)
"""Files by which a library tests how its machine rounds, and multiplies and adds where that is wrong."""


@dataclass(frozen=True)
class FrozenView:
    """A tensor among the constants, as its bits."""

    title: CText
    lines: tuple[CText, ...]


@dataclass(frozen=True)
class InitialTensorView:
    """Tensor with initial content; `array` is set if its words differ, and `words` is then its name."""

    title: CText
    at: int
    count: int
    fill: int
    words: CText
    array: tuple[CText, ...]
    lines: tuple[CText, ...]


BYTES = ("int8", "uint8")
"""Types of 8 bits of a library's inputs."""


@dataclass(frozen=True)
class LibraryForm:
    """Demands of a library on its caller, for less memory.

    `inputs` is the type of 8 bits of inputs that the model quantizes at once; they stay floats without it. With
    `after_update` no prediction comes between a pass and its update.
    """

    inputs: str = ""
    after_update: bool = False

    def __post_init__(self) -> None:
        """OptionProblem for another type."""
        if self.inputs not in ("", *BYTES):
            raise OptionProblem(f"inputs is {self.inputs!r}", hint=f"one of {', '.join(BYTES)}, or leave it out")


PLAIN_FORM = LibraryForm()


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """A model as planned for one memory: its plan, program and layout; `case` is what its files are called.

    `beside` are files of its own that the library has as well, by their paths; they replace others of the same path,
    and need the shared headers `needed`. `scales` say what numbers of inputs of 8 bits stand for. `readme` stands at
    the end of its page. With `python` it has a module of Python, too.
    """

    name: CText
    case: str
    plan: Plan
    program: Program
    schedule: Schedule
    layout: MemoryLayout
    beside: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    needed: tuple[str, ...] = field(default=(), kw_only=True)
    scales: Mapping[str, InputScale] = field(default_factory=dict, kw_only=True)
    readme: str = field(default="", kw_only=True)
    python: bool = field(default=False, kw_only=True)


def library_tools(target: Target) -> Toolchain:
    """The toolchain of a target, or that of libraries for one that builds no programs of its own.

    OptionProblem where a library cannot be planned for the target.
    """
    tools = target.toolchain or targets.load(library_rules().target).toolchain
    if len(target.levels) > 1 or tools is None:
        levels = ", ".join(level.name for level in target.levels)
        raise OptionProblem(
            f"target {target.name!r} has {len(target.levels)} memories, and a library works in one",
            [("memories", levels)],
            f"-p {library_rules().target}",
        )
    return tools


class CommonView:
    """All that templates print of any library; `initial` are tensors with their first content.

    `struct_bytes` is the size of the library's struct, which depends on its kind.
    """

    struct_bytes: int
    training: TrainingParts | None = None

    def __init__(self, made: PlannedModel, purpose: str, title: str, initial: Sequence[state.InitialTensor]) -> None:
        plan, program, rules = made.plan, made.program, library_rules()
        self.made, self.name, self.upper = made, made.name, code(made.name.upper())
        self.purpose, self.title = code(purpose), c_comment(title)
        self.case = markdown_code(made.case)
        self.keywords = tuple(map(code, KEYWORDS))
        origin = f"Generated by deployer for target {plan.options.target}; plan {digest(plan)}. Do not edit."
        self.provenance = c_comment(origin)
        self.version, self.target = code(deployer.__version__), code(plan.options.target)
        homes = made.layout.places
        self.names = Names(plan, f"{self.upper}_")
        self.words = made.layout.words
        self.inputs = interface.input_views(plan, program, self.names, made.scales)
        self.ranges = interface.range_views(plan, program, self.names)
        self.checked = ONCE if self.ranges else ()
        self.predictions = interface.prediction_views(plan, program, self.names)
        self.features = interface.features_view(plan, program, self.names)
        self.output = self.predictions[0].outputs if self.predictions else ()
        self.steps: StepsView = steps_view(plan, self.names, homes, GRAPHS, bool(made.layout.frozen))
        used = {address for kernel in self.steps.kernels for _, address in kernel.places}
        self.accessors = tuple(view for view in ACCESSORS if view.name in used)
        self.bytewise = tuple({v.member: v for v in self.accessors if DTYPES[v.dtype] < state.WORD}.values())
        self.first = tuple(tensor for tensor in initial if tensor.home not in made.layout.frozen)
        self.holds_first = ONCE if self.first else ()
        self.frozen = tuple(
            FrozenView(tensor_title(tensor.home), _bits(tensor)) for tensor in _constants(made.layout, initial)
        )
        self.frozen_words, self.frozen_at = made.layout.frozen_words, FROZEN
        self.holds_frozen = ONCE if self.frozen else ()
        self.initial = tuple(_tensor_view(index, tensor, homes) for index, tensor in enumerate(self.first))
        self.weight_bytes = sum(tensor.words.nbytes for tensor in self.first if not tensor.uniform)
        self.standard, self.optimize = code(rules.standard), code(rules.optimize)
        self.flags = code(" ".join(rules.flags))
        self.libraries = code(" ".join(f"-l{name}" for name in rules.libraries))
        self.linked = code(" ".join(rules.libraries))
        self.shared_sources: tuple[CText, ...] = ()
        self.shared_flags, self.native_flag = code(" ".join(rules.shared)), code(rules.native)
        self.python = ONCE if made.python else ()
        self.python_targets = code(" shared" if made.python else "")
        self.sources: tuple[CText, ...] = ()
        self.proofs: tuple[CText, ...] = ()
        self.own_proofs: tuple[CText, ...] = ()
        self.proof, self.own_fma_proof = (
            code(source_proof(name, made.name)) for name in (f"{made.name}.c", OWN_FMA_SOURCE)
        )

    @property
    def homes(self) -> tuple[ConstantView, ...]:
        """The places that something names: rows of steps have their numbers."""
        places, names = self.made.layout.places, self.names
        return tuple(
            ConstantView(
                names.homes[h.storage],
                code(str(places[h.storage])),
                c_comment(f"{h.type}, steps {h.first}..{h.last}"),
            )
            for h in self.made.plan.homes
            if h.storage in names.used
        )

    @property
    def module_parts(self) -> ModuleParts:
        """The parts of the library that its module of Python needs."""
        made = self.made
        return ModuleParts(
            name=self.name,
            title=self.title,
            provenance=self.provenance,
            plan=made.plan,
            program=made.program,
            places=made.layout.places,
            inputs=self.inputs,
            predictions=self.predictions,
            struct_bytes=self.struct_bytes,
            training=self.training,
        )


def printed_files(view: CommonView, own: Mapping[str, str], more: Mapping[str, bytes]) -> dict[str, str | bytes]:
    """The files of a library but its manifest: kernels, `own` ones by their templates, build files, and `more`, and
    what is `beside` the model.
    """
    made = view.made
    tools = library_tools(target_of(made.plan.options))
    used = {step.kernel.symbol: step.kernel for step in made.plan.steps}
    kernels = [used[symbol] for symbol in sorted(used)]
    sources = kernel_sources(kernels, tools, made.name, (*NEEDED, *made.needed))
    proofs = (source_proof(f"{kernel.symbol}.c", made.name) for kernel in kernels)
    more_proofs = (proof for _, text in sorted(made.beside.items()) for proof in _PROOF.findall(text))
    view.proofs = tuple(map(code, (*proofs, *view.own_proofs, *more_proofs)))
    files: dict[str, str | bytes] = {f"src/{name}": text for name, text in sources.items()}
    view.sources = tuple(
        code(PurePosixPath(p).stem) for p in sorted({*files, *own, *made.beside}) if p[:4] == "src/" and p[-2:] == ".c"
    )
    native = native_kernels(kernels, made.name, (*NEEDED, *made.needed), sources) if made.python else {}
    view.shared_sources = shared_paths(view.sources, native, made.name)
    own = {**own, "library.properties": "library.properties", f"{VENDOR}.{made.name}.pdsc": "pack.pdsc"}
    own |= {name: name for name in ("Makefile", "CMakeLists.txt", "idf_component.yml")}
    own |= {"zephyr/CMakeLists.txt": "zephyr.cmake", "zephyr/module.yml": "module.yml", "zephyr/Kconfig": "Kconfig"}
    if taken := sorted(files.keys() & own.keys()):
        facts = [("files", ", ".join(taken))]
        raise OptionProblem("kernels have the names of the library's own files", facts, "other names for the kernels")
    files |= {path: rendered(f"firmware/{template}", view) for path, template in own.items()}
    if made.python:
        files |= native | python_files(view.module_parts, {**files, **native})
    files["library.json"] = json_text(_platformio(view))
    files |= {path: str(files[path]) + made.readme for path in ("README.md",)}
    files |= {**more, **made.beside}
    files["LICENSE"] = (TEMPLATES / "firmware" / "LICENSE.txt").read_text()
    files[BILL] = library_bill(made.name, files)
    return files


def _constants(layout: MemoryLayout, initial: Sequence[state.InitialTensor]) -> tuple[state.InitialTensor, ...]:
    """The tensors that are frozen, in the order in which they lie."""
    known = {tensor.home.storage: tensor for tensor in initial}
    return tuple(known[home.storage] for home in layout.frozen)


def tensor_title(home: Home) -> CText:
    """A tensor in a comment."""
    return c_comment(f"{home.storage}: {home.type}")


def _bits(tensor: state.InitialTensor) -> tuple[CText, ...]:
    return listed([f"0x{word:08x}u" for word in tensor.words.tolist()])


def _tensor_view(index: int, tensor: state.InitialTensor, homes: Mapping[str, int]) -> InitialTensorView:
    name = code(f"words_{index}")
    uniform = tensor.uniform
    return InitialTensorView(
        title=tensor_title(tensor.home),
        at=homes[tensor.home.storage],
        count=len(tensor.words),
        fill=int(tensor.words[0]) if uniform else 0,
        words=code("0") if uniform else name,
        array=() if uniform else (name,),
        lines=() if uniform else _bits(tensor),
    )


def _platformio(view: CommonView) -> dict[str, object]:
    """PlatformIO's description of the library."""
    return {
        "name": view.name,
        "version": deployer.__version__,
        "description": f"{view.purpose} of {view.name} in C11, without heap and stdio",
        "keywords": list(KEYWORDS),
        "license": LICENCE,
        "headers": f"{view.name}.h",
        "frameworks": "*",
        "platforms": "*",
        "build": {"includeDir": "include", "srcDir": "src", "flags": list(library_rules().flags)},
    }


def manifest(view: CommonView, files: Mapping[str, str | bytes], own: Mapping[str, object]) -> dict[str, object]:
    """The library's manifest for programs: names, sizes, what is the library's `own`, and a digest of each file."""
    made = view.made
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    return {
        "version": 1,
        "name": made.name,
        "compiler": deployer.__version__,
        "plan": digest(made.plan),
        "target": made.plan.options.target,
        "bytes": {
            "struct": view.struct_bytes,
            "weights": view.weight_bytes,
            "steps": view.steps.bytes,
            "frozen": view.frozen_words * state.WORD,
        },
        **own,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())},
    }


def described(made: PlannedModel, name: str) -> dict[str, object]:
    """Name, type, shape and scale of a tensor for a manifest."""
    kind, given = made.program.tensors[name].type, made.scales.get(name)
    scaling = {"scale": float(given.scale), "zero": given.zero} if given else {}
    return {"name": name, "type": kind.dtype, "shape": list(kind.shape), **scaling}
