"""A library as files: everything a template prints, and the texts by their names in the folder."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

import deployer
from deployer.codegen.c_names import Names
from deployer.codegen.generate import TEMPLATES, rendered
from deployer.codegen.render import ConstantView, number_count
from deployer.core import target as targets
from deployer.core.artefact import digest
from deployer.core.errors import OptionProblem
from deployer.core.files.bill import LICENCE
from deployer.core.ir import Program
from deployer.core.plan import Home, Plan, Schedule, target_of
from deployer.core.safe_text import CText, c_comment, code, json_text, markdown_code
from deployer.core.target import Target, Toolchain
from deployer.firmware import interface, pages, state
from deployer.firmware.bill import BILL, library_bill
from deployer.firmware.memory import FROZEN, MemoryLayout
from deployer.firmware.pages import SamplesView, listed, samples_view
from deployer.firmware.prediction import PREDICT
from deployer.firmware.segments import segments, step_cycles
from deployer.firmware.sources import FLAGS, kernel_sources, library_rules, source_proof
from deployer.firmware.steps import ACCESSORS, NOWHERE, StepsView, steps_view
from deployer.frontend.dataset import Dataset

GRAPHS = {"train": "train_graph", PREDICT: "predict_graph", "optimizer": "optimizer_graph"}
"""The functions that run the graphs of a plan."""
ONCE = (1,)
"""What a template goes through once where it prints something at all."""
OWN_FMA_SOURCE = "fma_f32.c"
NEEDED = ("exact_f32.h", FLAGS, OWN_FMA_SOURCE)
"""How a library finds out how its machine rounds, and a way out where that is another one."""


@dataclass(frozen=True)
class FrozenView:
    """A tensor among the constants, as its bits."""

    title: CText
    lines: tuple[CText, ...]


@dataclass(frozen=True)
class KeptView:
    """A tensor of the state: its place and words, whether it is a weight, the number of its first content, if any."""

    at: int
    count: int
    is_weight: int
    first: CText
    title: CText


@dataclass(frozen=True, eq=False)
class Material:
    """Inputs of library generation: the plan of training, prediction and update, its program, the case's numbers.

    `rates` are those that its groups of weights begin with, `case` what the case is called.
    """

    name: CText
    case: str
    plan: Plan
    program: Program
    schedule: Schedule
    layout: MemoryLayout
    dataset: Dataset
    rates: tuple[float, ...]


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


def library_tools(target: Target) -> Toolchain:
    """The toolchain of a target; OptionProblem where a library cannot be planned for it."""
    if len(target.levels) > 1 or target.toolchain is None:
        levels = ", ".join(level.name for level in target.levels)
        raise OptionProblem(
            f"target {target.name!r} has {len(target.levels)} memories, and a library works in one",
            [("memories", levels)],
            f"-p {library_rules().target}",
        )
    return target.toolchain


def library_files(made: Material) -> dict[str, str | bytes]:
    """The files of a library by their paths in its folder; the same material gives the same bytes."""
    tools = library_tools(target_of(made.plan.options))
    used = {step.kernel.symbol: step.kernel for step in made.plan.steps}
    kernels = [used[symbol] for symbol in sorted(used)]
    sources = kernel_sources(kernels, tools, made.name, NEEDED)
    view = _View(made)
    view.proofs = tuple(code(source_proof(f"{kernel.symbol}.c", made.name)) for kernel in kernels)
    files: dict[str, str | bytes] = {f"src/{name}": text for name, text in sources.items()}
    own = {
        f"include/{made.name}.h": "header.h",
        f"src/{made.name}.h": "forward.h",
        f"src/{made.name}.c": "network.c",
        f"src/{made.name}_own.h": "own.h",
        f"src/{made.name}_state.c": "state.c",
        f"src/{made.name}_weights.h": "weights.h",
        f"src/{made.name}_weights.c": "weights.c",
        "examples/main.c": "main.c",
        f"examples/{made.name}_samples.h": "samples.h",
        "README.md": "README.md",
        "library.properties": "library.properties",
    }
    view.sources = tuple(
        code(PurePosixPath(p).stem) for p in sorted((*files, *own)) if p[:4] == "src/" and p[-2:] == ".c"
    )
    own |= {name: name for name in ("Makefile", "CMakeLists.txt", "idf_component.yml")}
    own |= {"zephyr/CMakeLists.txt": "zephyr.cmake", "zephyr/module.yml": "module.yml", "zephyr/Kconfig": "Kconfig"}
    if taken := sorted(files.keys() & own.keys()):
        facts = [("files", ", ".join(taken))]
        raise OptionProblem("kernels have the names of the library's own files", facts, "other names for the kernels")
    files |= {path: rendered(f"firmware/{template}", view) for path, template in own.items()}
    files["library.json"] = json_text(_platformio(made))
    files["weights.bin"] = state.first_image(view.layout, view.first)
    files["LICENSE"] = (TEMPLATES / "firmware" / "LICENSE.txt").read_text()
    files[BILL] = library_bill(made.name, files)
    files["manifest.json"] = json_text(_manifest(view, files))
    return dict(sorted(files.items()))


class _View:
    """All that the templates of a library print."""

    def __init__(self, made: Material) -> None:
        plan, program, rules = made.plan, made.program, library_rules()
        self.made, self.name, self.upper = made, made.name, code(made.name.upper())
        self.title = c_comment(f"{made.name}: the training of {made.case} as a library")
        self.case = markdown_code(made.case)
        origin = f"Generated by deployer for target {plan.options.target}; plan {digest(plan)}. Do not edit."
        self.provenance = c_comment(origin)
        self.version, self.target = code(deployer.__version__), code(plan.options.target)
        self.accumulate = plan.options.accumulate
        homes = made.layout.places
        names = Names(plan, f"{self.upper}_")
        self.homes = tuple(
            ConstantView(
                names.home(h.storage), code(str(homes[h.storage])), c_comment(f"{h.type}, steps {h.first}..{h.last}")
            )
            for h in plan.homes
        )
        self.words = made.layout.words
        self.numbers = number_count(plan)
        self.inputs = interface.input_views(plan, program, names)
        self.trained_inputs = tuple(view for view in self.inputs if not view.purpose)
        predicting = PREDICT in plan.graphs
        self.output = (interface.output_view(plan, program, names),) if predicting else ()
        self.weight_views = interface.weight_views(plan, program, names)
        self.weights = len(self.weight_views)
        self.ranges = interface.range_views(plan, program, names)
        self.checked = ONCE if self.ranges else ()
        self.rate_views = interface.rate_views(plan, program, made.rates)
        self.rates = len(self.rate_views)
        self.rated = ONCE if made.dataset.rates.size else ()
        self.steps: StepsView = steps_view(plan, names, GRAPHS, bool(made.layout.frozen))
        self.train_steps = len(self.steps.paced.calls)
        cycles = step_cycles(made.schedule, made.plan.graphs[0], targets.load(rules.costs))
        self.cycles = listed([f"{number}u" for number in cycles])
        self.costs, self.segments = code(rules.costs), segments(made.schedule)
        used = {address for kernel in self.steps.kernels for _, address in kernel.places}
        self.accessors = tuple(view for view in ACCESSORS if view.name in used)
        self.loss = names.home(plan.storage_of[plan.outputs[0]])
        initial = state.initial_tensors(plan, program, made.dataset.weights)
        self.layout = state.state_layout(plan, program, initial)
        self.first = tuple(tensor for tensor in initial if tensor.home not in made.layout.frozen)
        self.frozen = tuple(
            FrozenView(_title(tensor.home), _bits(tensor)) for tensor in _constants(made.layout, initial)
        )
        self.frozen_words, self.frozen_at = made.layout.frozen_words, FROZEN
        self.holds_frozen = ONCE if self.frozen else ()
        self.kept = _kept(self.layout, self.first, homes)
        self.kept_bytes = sum(row.count for row in self.kept) * state.WORD
        self.state_bytes, self.weights_bytes, self.changes_bytes = self.layout.most
        halves = [(number & 0xFFFFFFFF, number >> 32) for number in self.layout.identities]
        self.image_kinds = tuple((*half, most) for half, most in zip(halves, self.layout.most, strict=True))
        self.ready = (halves[0][0] ^ halves[0][1]) | 1
        self.magic, self.format = int.from_bytes(state.MAGIC, "little"), state.VERSION
        self.slot_magic, self.slot_head = int.from_bytes(state.SLOT_MAGIC, "little"), state.SLOT.size
        self.done_magic, self.slot_done = int.from_bytes(state.DONE_MAGIC, "little"), state.DONE.size
        self.kept_magic, self.slot_unit_most = int.from_bytes(state.KEPT_MAGIC, "little"), state.UNIT_MOST
        self.head_bytes, self.seal_bytes = state.HEADER.size, state.DIGEST.size
        self.initial = tuple(_tensor_view(index, tensor, homes) for index, tensor in enumerate(self.first))
        self.samples: SamplesView = samples_view(plan, program, self.inputs, made.dataset)
        flush = " || pass + 1u == SAMPLE_PASSES" if self.samples.left else ""
        self.due = code(f"(pass + 1u) % {self.upper}_ACCUMULATE == 0{flush}")
        self.standard, self.optimize = code(rules.standard), code(rules.optimize)
        self.flags = code(" ".join(rules.flags))
        self.libraries = code(" ".join(f"-l{name}" for name in rules.libraries))
        self.linked = code(" ".join(rules.libraries))
        self.sources: tuple[CText, ...] = ()
        self.proofs: tuple[CText, ...] = ()
        self.proof, self.own_fma_proof = (
            code(source_proof(name, made.name)) for name in (f"{made.name}.c", OWN_FMA_SOURCE)
        )
        self.struct_bytes = state.WORD * (self.words + self.numbers + 5)
        self.weight_bytes = sum(tensor.words.nbytes for tensor in self.first if not tensor.uniform)
        self.size_rows = pages.size_rows(
            self.name, self.struct_bytes, self.weight_bytes, self.frozen_words * state.WORD, self.steps.bytes
        )
        self.weight_rows = pages.weight_rows(plan, program)
        self.rate_text = pages.rate_text(self.name, made.rates)


def _constants(layout: MemoryLayout, initial: Sequence[state.InitialTensor]) -> tuple[state.InitialTensor, ...]:
    """The parts that are frozen, in the order in which they lie."""
    known = {tensor.home.storage: tensor for tensor in initial}
    return tuple(known[home.storage] for home in layout.frozen)


def _title(home: Home) -> CText:
    return c_comment(f"{home.storage}: {home.type}")


def _bits(tensor: state.InitialTensor) -> tuple[CText, ...]:
    return listed([f"0x{word:08x}u" for word in tensor.words.tolist()])


def _tensor_view(index: int, tensor: state.InitialTensor, homes: Mapping[str, int]) -> InitialTensorView:
    name = code(f"words_{index}")
    uniform = tensor.uniform
    return InitialTensorView(
        title=_title(tensor.home),
        at=homes[tensor.home.storage],
        count=len(tensor.words),
        fill=int(tensor.words[0]) if uniform else 0,
        words=code("0") if uniform else name,
        array=() if uniform else (name,),
        lines=() if uniform else _bits(tensor),
    )


def _kept(
    layout: state.StateLayout, initial: Sequence[state.InitialTensor], homes: Mapping[str, int]
) -> tuple[KeptView, ...]:
    firsts = {tensor.home.storage: index for index, tensor in enumerate(initial)}
    return tuple(
        KeptView(
            homes[k.home.storage],
            k.home.bytes // state.WORD,
            int(k.is_weight),
            code(str(firsts.get(k.home.storage, NOWHERE))),
            _title(k.home),
        )
        for k in layout.kept
    )


def _platformio(made: Material) -> dict[str, object]:
    """PlatformIO's description of the library."""
    return {
        "name": made.name,
        "version": deployer.__version__,
        "description": f"Training and prediction of {made.name} in C11, without heap and stdio",
        "license": LICENCE,
        "headers": f"{made.name}.h",
        "frameworks": "*",
        "platforms": "*",
        "build": {"includeDir": "include", "srcDir": "src", "flags": list(library_rules().flags)},
    }


def _manifest(view: _View, files: Mapping[str, str | bytes]) -> dict[str, object]:
    """Build the library's manifest for programs: sizes, tensors, offsets in weights.bin, a digest of each file."""
    made, place = view.made, state.HEADER.size
    tensors = []
    for kept in view.layout.kept:
        home = kept.home
        kind = {"name": home.storage, "type": home.type.dtype, "shape": list(home.type.shape)}
        tensors.append({**kind, "weight": kept.is_weight, "at": place})
        place += home.bytes
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
        "segments": [asdict(segment) for segment in view.segments],
        "inputs": [_described(made, name) for name in made.plan.data],
        "output": [_described(made, name) for name in made.plan.outputs[1:]],
        "state": tensors,
        "accumulate": made.plan.options.accumulate,
        "identities": [f"{number:016x}" for number in view.layout.identities],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())},
    }


def _described(made: Material, name: str) -> dict[str, object]:
    kind = made.program.tensors[name].type
    return {"name": name, "type": kind.dtype, "shape": list(kind.shape)}
