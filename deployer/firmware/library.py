"""A library as files: everything a template prints, and the texts by their names in the folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from deployer.codegen.harness import data_read
from deployer.codegen.render import number_count
from deployer.core import target as targets
from deployer.core.plan import target_of
from deployer.core.safe_text import CText, code, json_text
from deployer.firmware import interface, pages, state
from deployer.firmware.bindings.gradients import gradients_views
from deployer.firmware.bindings.python_module import TrainingParts
from deployer.firmware.common import (
    PLAIN_FORM,
    CommonView,
    LibraryForm,
    PlannedModel,
    described,
    library_tools,
    manifest,
    printed_files,
    tensor_title,
)
from deployer.firmware.pages import SamplesView, listed, samples_view
from deployer.firmware.prediction import FEATURES
from deployer.firmware.replay import ReplayView, Ring, replay_samples, replay_view
from deployer.firmware.segments import segments, step_cycles
from deployer.firmware.sources import library_rules
from deployer.firmware.steps import NOWHERE, ONCE
from deployer.frontend.dataset import Dataset


@dataclass(frozen=True)
class KeptView:
    """A tensor of the state: its place and words, whether it is a weight, the number of its first content, if any."""

    at: int
    count: int
    is_weight: int
    first: CText
    title: CText


@dataclass(frozen=True, eq=False)
class Material(PlannedModel):
    """Inputs of library generation: the plan of training, prediction and update, its program, the case's numbers.

    `rates` are those that its groups of weights begin with, `ring` is there if its head trains on latents; `form` is
    what its caller is asked for.
    """

    dataset: Dataset
    rates: tuple[float, ...]
    ring: Ring | None = None
    form: LibraryForm = PLAIN_FORM


def library_files(made: Material) -> dict[str, str | bytes]:
    """The files of a library by their paths in its folder; the same material gives the same bytes."""
    library_tools(target_of(made.plan.options))
    view = _View(made)
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
    }
    if made.ring:
        own |= {f"src/{made.name}_replay.c": "replay.c", "examples/main.c": "replay_main.c"}
        own |= {f"examples/{made.name}_samples.h": "replay_samples.h"}
    files = printed_files(view, own, {"weights.bin": state.first_image(view.layout, view.first)})
    files["manifest.json"] = json_text(manifest(view, files, _own_facts(view)))
    return dict(sorted(files.items()))


class _View(CommonView):
    """All that the templates of a library print."""

    def __init__(self, made: Material) -> None:
        plan, program, rules = made.plan, made.program, library_rules()
        initial = state.initial_tensors(plan, program, made.dataset.weights)
        title = f"{made.name}: the training of {made.case} as a library"
        super().__init__(made, "Training and prediction", title, initial)
        self.material, names, homes = made, self.names, made.layout.places
        self.accumulate = plan.options.accumulate
        self.numbers = number_count(plan)
        self.after_update = ONCE if made.form.after_update else ()
        self.any_time = () if made.form.after_update else ONCE
        self.trained_inputs = tuple(view for view in self.inputs if not view.purpose)
        self.weight_views = interface.weight_views(plan, program, names)
        self.weights = len(self.weight_views)
        self.rate_views = interface.rate_views(plan, program, made.rates)
        self.rates = len(self.rate_views)
        self.rated = ONCE if made.dataset.rates.size else ()
        self.train_steps = self.steps.paced.count
        cycles = step_cycles(made.schedule, made.plan.graphs[0], targets.load(rules.costs))
        self.cycles = listed([f"{number}u" for number in cycles])
        self.costs, self.segments = code(rules.costs), segments(made.schedule)
        self.loss = names.home(plan.storage_of[plan.outputs[0]])
        self.replay = _replay(self)
        self.layout = state.state_layout(plan, program, initial, made.layout.beside)
        self.kept = _kept(self.layout, self.first, homes)
        self.own_kept = len(self.kept) - len(made.layout.beside)
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
        self.samples: SamplesView = _samples(self)
        flush = " || pass + 1u == SAMPLE_PASSES" if self.samples.left else ""
        self.due = code(f"(pass + 1u) % {self.upper}_ACCUMULATE == 0{flush}")
        self.struct_bytes = state.WORD * (self.words + self.numbers + 5)
        self.size_rows = pages.size_rows(
            self.name, self.struct_bytes, self.weight_bytes, self.frozen_words * state.WORD, self.steps.bytes
        )
        self.size_rows = (self.size_rows[0], *(row.size_row for row in self.replay), *self.size_rows[1:])
        self.weight_rows = pages.weight_rows(plan, program)
        self.rate_text = pages.rate_text(self.name, made.rates)
        self.gradients = gradients_views(self.layout, made.schedule, self.name)
        self.own_proofs = tuple(view.proof for view in self.gradients)
        self.training = TrainingParts(self.layout, self.accumulate, self.rates, self.gradients)


def _replay(view: _View) -> tuple[ReplayView, ...]:
    """The ring of a library that has one."""
    made = view.material
    if made.ring is None or view.features is None:
        return ()
    known = dict(zip(data_read(made.plan), view.inputs, strict=True))
    return (replay_view(made.ring, made.layout.places, view.features, known, made.plan, made.program),)


def _samples(view: _View) -> SamplesView:
    """The samples of the example: those of passes, or with a ring single ones."""
    made = view.material
    rings = [replay_samples(row, made.dataset) for row in view.replay]
    return rings[0] if rings else samples_view(made.plan, made.program, view.inputs, made.dataset)


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
            tensor_title(k.home),
        )
        for k in layout.kept
    )


def _gradients(view: _View) -> dict[str, object]:
    """The image of gradients: its kind and bytes, and its tensors in order."""
    [images] = view.gradients
    names = [view.layout.kept[number].home.storage for number in view.layout.gradients]
    return {"kind": images.kind, "bytes": images.bytes, "tensors": names}


def _own_facts(view: _View) -> dict[str, object]:
    """Members of the manifest of this kind of library alone: segments, tensors, offsets in weights.bin, identities."""
    made, place = view.made, state.HEADER.size
    latents = interface.outputs_of(FEATURES, made.program)
    tensors = []
    for kept in view.layout.kept:
        home = kept.home
        kind = {"name": home.storage, "type": home.type.dtype, "shape": list(home.type.shape)}
        tensors.append({**kind, "weight": kept.is_weight, "at": place})
        place += home.bytes
    return {
        "segments": [asdict(segment) for segment in view.segments],
        "inputs": [described(made, name) for name in made.plan.data],
        "output": [described(made, name) for name in made.plan.outputs[1:] if name not in latents],
        "state": tensors,
        "accumulate": made.plan.options.accumulate,
        **({"gradients": _gradients(view)} if view.gradients else {}),
        **({"replay": view.replay[0].facts} if view.replay else {}),
        "identities": [f"{number:016x}" for number in view.layout.identities],
    }
