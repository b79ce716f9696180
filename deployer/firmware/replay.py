"""Latent replay: a ring of records in a library's struct, from which passes of training are filled up.

A record is a latent, which is what the frozen part of a model computes of a sample, and its label. What a full ring
replaces and what a pass draws follow from a seed and from counters alone (`philox`): two devices with the same adds
have the same ring. `replay.c` is this in C.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.errors import OptionProblem
from deployer.core.ir import DTYPES, GraphNames, Program, TensorType
from deployer.core.operator import Array, numerics_of
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, code
from deployer.firmware.interface import PredictionView, TensorView, outputs_of
from deployer.firmware.pages import MOST_BYTES, SamplesView, SizeRow, array_view, rates_text
from deployer.firmware.prediction import FEATURES, PREDICT, known_name
from deployer.firmware.steps import ONCE, WORD
from deployer.frontend.dataset import Dataset
from deployer.operators.base.philox import BITS, halves

BALANCED, RESERVOIR = POLICIES = "balanced", "reservoir"
"""Policies of a full ring: a new record replaces one of the largest classes, or any, with falling probability."""
STREAM = 2
"""The counter's last word, by which these draws are others than those of a training and of tokens."""
NEEDED = ("philox_f32.h",)
"""Headers that the C of a ring includes, for `kernel_sources` of a library."""
COUNTERS = 2
"""Counters of a ring: of adds, and of records that passes have drawn."""
PER_CLASS = 3
"""Counters of a class: records that were added, those that the ring holds, whether it was ever one of the largest."""
MOST_SLOTS = 1 << 24


@dataclass(frozen=True)
class ReplayOptions:
    """Records of a ring, its policy, and the seed of its draws; OptionProblem where one is out of range."""

    slots: int
    policy: str = BALANCED
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {
            "slots": (0 < self.slots <= MOST_SLOTS, f"1 to {MOST_SLOTS}"),
            "policy": (self.policy in POLICIES, ", ".join(POLICIES)),
            "seed": (0 <= self.seed < 1 << 2 * BITS, "0 to 2^64 - 1"),
        }
        for name, (holds, range_) in limits.items():
            if not holds:
                facts = [(name, str(getattr(self, name))), ("range", range_)]
                raise OptionProblem(f"{name} of a latent replay is out of range", facts, f"{name} in its range")


@dataclass(frozen=True)
class Labels:
    """Labels that a record may have: `count` whole numbers from `least` on, and `spare`, which no loss counts."""

    least: int
    count: int
    spare: int


@dataclass(frozen=True)
class Ring:
    """Ring of a library: what a pass reads of a latent and of a label, and how many of each (`batch`).

    `latent` and `label` are inputs of the training graph, `labels` what a label may be, where it is an index, `inputs`
    what the features read, and `names` those of the ring's tensors: latents, labels, counters.
    """

    options: ReplayOptions
    latent: str
    latent_type: TensorType
    label: str
    label_type: TensorType
    batch: int
    labels: Labels | None
    names: tuple[str, str, str]
    inputs: tuple[str, ...]

    @property
    def latent_size(self) -> int:
        """Elements of a latent."""
        return self.latent_type.size // self.batch

    @property
    def label_size(self) -> int:
        """Elements of a label."""
        return self.label_type.size // self.batch

    @property
    def record_words(self) -> int:
        """Words of a record's latent, the last of which may be in part its own."""
        return -(-self.latent_size * DTYPES[self.latent_type.dtype] // WORD)

    @property
    def classes(self) -> int:
        """Classes that the ring counts."""
        return self.labels.count if self.labels and self.options.policy == BALANCED else 0

    @property
    def tensors(self) -> tuple[tuple[str, TensorType], ...]:
        """The names and types of latents, labels and counters."""
        slots, each = self.options.slots, WORD // DTYPES[self.latent_type.dtype]
        kinds = (
            TensorType(self.latent_type.dtype, (slots, self.record_words * each)),
            TensorType(self.label_type.dtype, (slots, self.label_size)),
            TensorType("int32", (COUNTERS + PER_CLASS * self.classes,)),
        )
        return tuple(zip(self.names, kinds, strict=True))

    @property
    def bytes(self) -> int:
        """Bytes of the ring in a struct."""
        return sum(kind.bytes for _, kind in self.tensors)


def ring_of(options: ReplayOptions, program: Program) -> Ring:
    """The ring for a program whose training graph reads latents and targets.

    OptionProblem where it reads anything else, or where the policy needs classes that the targets are not.
    """
    given = program.data_of(program.graphs[0].name)
    made = outputs_of(FEATURES, program)
    latents = given[:1]
    if len(given) != 2 or not made:
        facts = [("inputs", ", ".join(given))]
        raise OptionProblem("a latent replay trains on a latent and a target alone", facts, "a case of these two")
    latent, label = latents[0], given[1]
    kind, target, own = (program.tensors[name].type for name in (latent, label, made[0]))
    batch = kind.size // own.size
    if own.dtype != kind.dtype or batch * own.size != kind.size or target.size % max(batch, 1):
        facts = [("features", str(own)), ("training", f"{kind} and {target}")]
        raise OptionProblem("the features do not fit what the training reads", facts, "features for one sample")
    labels = _labels(program, label)
    if options.policy == BALANCED and (labels is None or target.size != batch):
        facts = [("target", f"{label} {target}")]
        hint = f"--replay-policy {RESERVOIR}"
        raise OptionProblem("a class-balanced replay needs a class for each sample", facts, hint)
    fresh = GraphNames(set(program.tensors)).fresh
    inputs = program.data_of(FEATURES)
    names = fresh("replay.latents"), fresh("replay.labels"), fresh("replay.counters")
    return Ring(options, latent, kind, label, target, batch, labels, names, inputs)


def _labels(program: Program, label: str) -> Labels | None:
    """The numbers that nodes of the training graph take as an index of that input; None where none does."""
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for node in program.graphs[0].nodes:
        indices = numerics_of(node).indices(node, types)
        if indices and program.storage(indices.input) == program.storage(label):
            spare = indices.least if indices.ignored is None else indices.ignored
            return Labels(indices.least, indices.count, spare)
    return None


def single_samples(dataset: Dataset, program: Program, ring: Ring) -> Dataset:
    """The dataset with samples one by one: what the features read of each, and its label.

    `program` is the one that the dataset was read for.
    """
    places = [program.data.index(known_name(name)) for name in (*ring.inputs, ring.label)]
    rows = list[tuple[Array, ...]]()
    for row in dataset.samples:
        parts = [np.split(row[place], ring.batch) if ring.batch > 1 else [row[place]] for place in places]
        rows += zip(*parts, strict=True)
    return replace(dataset, samples=tuple(rows))


def replay_samples(view: "ReplayView", dataset: Dataset) -> SamplesView:
    """The samples of a case one by one, as many as are printed, for features and labels."""
    each = sum(array.nbytes for array in dataset.samples[0])
    rows = dataset.samples[: max(MOST_BYTES // each, 1)]
    passes = min(dataset.n_batches, len(rows))
    arrays = (array_view(known, [row[i] for row in rows]) for i, known in enumerate((*view.inputs, view.label)))
    updates = passes // dataset.n_accum
    rates = rates_text(dataset.rates[:updates])
    return SamplesView(tuple(arrays), len(rows), (), updates * dataset.n_accum, rates, 0)


POLICY_TEXTS = {
    BALANCED: "A full ring makes room in the largest classes, and may leave a record of one of these out.",
    RESERVOIR: "Each of all records added so far is in a full ring with the same probability; others are left out.",
}


@dataclass(frozen=True)
class ReplayView:
    """All that templates print of a ring: the features' inputs and result, places in words, sizes, and the policy."""

    inputs: tuple[TensorView, ...]
    parameters: CText
    predicted: tuple[tuple[TensorView, TensorView], ...]
    passed: CText
    arguments: CText
    label: TensorView
    latent: TensorView
    features_bit: int
    slots: int
    batch: int
    latent_size: int
    latent_type: CText
    latent_bytes: int
    record_words: int
    label_size: int
    label_type: CText
    latents_at: int
    labels_at: int
    counters_at: int
    latent_input: int
    label_input: int
    checked: tuple[Labels, ...]
    balanced: tuple[Labels, ...]
    reservoir: tuple[int, ...]
    policy: CText
    policy_text: CText
    seed: int
    key: tuple[int, int]
    stream: int
    bytes: int
    fresh: tuple[int, int]
    names: tuple[str, str]

    @property
    def size_row(self) -> SizeRow:
        """The ring in a table of sizes."""
        return SizeRow(code(f"of it the ring of {self.slots} records"), self.bytes, code("writable memory"))

    @property
    def facts(self) -> dict[str, object]:
        """The ring in a manifest."""
        return {
            "slots": self.slots,
            "policy": self.policy,
            "seed": self.seed,
            "latent": self.names[0],
            "label": self.names[1],
            "latent_bytes": self.latent_bytes,
            "bytes": self.bytes,
        }


def replay_view(
    ring: Ring,
    places: Mapping[str, int],
    features: PredictionView,
    given: Mapping[str, TensorView],
    plan: Plan,
    program: Program,
) -> ReplayView:
    """The view of a ring whose tensors have these places in a struct; `given` are the views of inputs by name."""
    options, label = ring.options, given[ring.label]
    inputs = tuple(given[name] for name in ring.inputs)
    sources = dict(zip(map(known_name, ring.inputs), inputs, strict=True))
    predicted = [name for name in program.data_of(PREDICT) if known_name(name) in sources]
    latents, labels, counters = (places[name] for name in ring.names)
    known = (ring.labels,) if ring.labels else ()
    balanced = known if options.policy == BALANCED else ()
    return ReplayView(
        inputs=inputs,
        parameters=code(", ".join(f"const {view.type} *input_{view.name}" for view in inputs)),
        predicted=tuple((given[name], sources[known_name(name)]) for name in predicted),
        passed=code(", ".join(f"input_{view.name}" for view in inputs)),
        arguments=code(", ".join(f"samples_of_{view.name}[sample]" for view in inputs)),
        label=replace(label, shape=code(f"[{ring.label_size}]"), count=ring.label_size),
        latent=features.outputs[0],
        features_bit=features.bit,
        slots=options.slots,
        batch=ring.batch,
        latent_size=ring.latent_size,
        latent_type=code(C_TYPES[ring.latent_type.dtype]),
        latent_bytes=ring.latent_size * DTYPES[ring.latent_type.dtype],
        record_words=ring.record_words,
        label_size=ring.label_size,
        label_type=code(C_TYPES[ring.label_type.dtype]),
        latents_at=latents,
        labels_at=labels,
        counters_at=counters,
        latent_input=places[plan.storage_of[ring.latent]],
        label_input=places[plan.storage_of[ring.label]],
        checked=known,
        balanced=balanced,
        reservoir=() if balanced else ONCE,
        policy=code(options.policy),
        policy_text=code(POLICY_TEXTS[options.policy]),
        seed=options.seed,
        key=halves(options.seed),
        stream=STREAM,
        bytes=ring.bytes,
        names=(ring.latent, ring.label),
        fresh=(1, 0) if ring.batch == 1 else ((ring.batch + 1) // 2, (ring.batch + 1) // 2),
    )
