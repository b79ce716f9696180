"""The artefacts between the checked program and the C: schedule, lifetimes, tiling, plan; each holds the one before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from deployer.core.access import Access, Axis, Mode, Span, nested, tiles
from deployer.core.artefact import IF_ANY, OUTSIDE_DIGEST
from deployer.core.ir import Node, Program, TensorType
from deployer.core.kernel import ArgValue, Const, Kernel, function_name
from deployer.core.level import L_HOME, L_INNER, L_OUTER, CrossStepTransfer, FusedLaunch, LevelUse, Residency, Slots
from deployer.core.operator import registry
from deployer.core.safe_text import identifier
from deployer.core.target import Target, load

Buffering = Literal["single", "double"]


@dataclass(frozen=True)
class Options:
    """The user's options: besides the graphs, everything a plan depends on.

    `outermost` is the last level tensors may live in; `budgets` are level budgets in bytes that differ from the
    target's; `opt_out` names operators or nodes that `training_double` keeps single-buffered; `accumulate` is the
    number of passes per update; `allow_rewrites` permits fused launches, and rewrites except `disabled_rewrites`;
    `fuse_update` makes pass and update one graph; `cross_step_prefetch` lets transfers
    start in earlier steps than their own, or end in later ones. With `canonical_batch` gradients are added up sample by
    sample, so that their bits do not depend on how an update is split into passes.
    """

    target: str = "host"
    strategy: str = "auto"
    budgets: dict[str, int] | None = None
    cores: int | None = None
    accumulate: int = 1
    opt_out: tuple[str, ...] = ()
    allow_rewrites: bool = True
    outermost: str = ""
    fuse_update: bool = False
    cross_step_prefetch: bool = field(default=True, metadata={IF_ANY: True})
    disabled_rewrites: tuple[str, ...] = field(default=(), metadata={IF_ANY: True})
    canonical_batch: bool = field(default=False, metadata={IF_ANY: True})

    def __post_init__(self) -> None:
        """By default the outermost level is the one next to the innermost, or the only one."""
        if not self.outermost:
            object.__setattr__(self, "outermost", load(self.target).usual.name)

    @property
    def updates_every_pass(self) -> bool:
        """Whether each pass is the only one of its update: gradients are set, never added to, and die with it."""
        return self.accumulate == 1


def target_of(options: Options) -> Target:
    """The target under the options' budgets and cores."""
    return load(options.target).with_options(options.budgets or {}, options.cores)


@dataclass(frozen=True)
class RunOptions:
    """Run options that no planning decision depends on: passes, loss tolerance, and passes whose state is `checked`.

    With `flush` the last pass always ends with an update.
    """

    passes: int
    tolerance: float
    checked: int
    flush: bool = field(default=False, metadata={IF_ANY: True})


@dataclass(frozen=True)
class Step:
    """A node in the schedule with its kernel, access and kernel arguments.

    Of its kernel's cold start `icache_miss_permille` thousandths return, as other code ran since the last step of the
    same form.
    """

    index: int
    graph: str
    node: Node
    kernel: Kernel
    access: Access
    args: dict[str, ArgValue]
    icache_miss_permille: int

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


@dataclass(frozen=True)
class Schedule:
    """All steps of all graphs in execution order; their indices continue from graph to graph."""

    options: Options
    program: Program
    steps: tuple[Step, ...]

    def repeats(self, step: Step) -> int:
        """Number of times a step runs per update; steps of the training graph run once per pass."""
        return self.options.accumulate if step.graph == "train" else 1


def target_for(schedule: Schedule) -> Target:
    """The target under a schedule's options."""
    return target_of(schedule.options)


@dataclass(frozen=True)
class Lifetime:
    """A storage and the steps first..last, inclusive, in which its content matters.

    `loaded` says that the harness fills it before step `first`; `persistent` that it outlives every pass.
    """

    storage: str
    bytes: int
    first: int
    last: int
    loaded: bool
    persistent: bool


@dataclass(frozen=True)
class Lifetimes:
    """The schedule with the lifetime of every storage that needs memory."""

    schedule: Schedule
    storages: tuple[Lifetime, ...]

    def of(self, storage: str) -> Lifetime:
        """The lifetime of a storage."""
        return next(x for x in self.storages if x.storage == storage)


@dataclass(frozen=True)
class Stage:
    """Tiling of a step's spilled operands in the level below their home: tile lengths, loop order, slots.

    `slots` names those operands alone. The tiles of the inner level cut each of these tiles again.
    """

    tile: dict[str, int]
    order: tuple[str, ...]
    buffering: Buffering
    slots: dict[str, int]


@dataclass(frozen=True)
class StepTiling:
    """The choice for one step: tile lengths, loop order (outermost first), buffering and slots per kernel argument.

    An argument with 0 slots is resident: the kernel works on its home. `stage` is None unless an operand is spilled.
    """

    step: str
    tile: dict[str, int]
    order: tuple[str, ...]
    buffering: Buffering
    slots: dict[str, int]
    stage: Stage | None = None

    @property
    def loops(self) -> "tuple[StepTiling | Stage, ...]":
        """The step's loops, the innermost first; the slots of each lie in the level of its number."""
        return (self, self.stage) if self.stage else (self,)

    def outer(self, access: Access) -> dict[str, int]:
        """Lengths that the tiles divide: those of the stage's tiles, or of the dims."""
        return self.stage.tile if self.stage else access.sizes

    def walk(self, access: Access) -> Iterator[tuple[dict[str, Span], list[dict[str, Span]]]]:
        """The stage's tiles in loop order, each with its own tiles in loop order."""
        order = self.stage.order if self.stage else self.order
        for outer_tile in tiles(access, self.outer(access), order):
            yield outer_tile, list(tiles(access, self.tile, self.order, outer_tile))


@dataclass(frozen=True)
class Tiling:
    """Storages at home in the inner level and in the outermost one, and a choice per step; others are in the middle.

    `resident` and `spilled` are in alphabetical order. `packing_slack` are bytes withheld from the budget of each level
    but the target's last. `groups` are the first steps of those whose argument tables take turns in `table_bytes`;
    without groups that holds all tables. `tables` are, if steps share theirs, for each step the first one with the same
    table. Spilled storages with `residencies`, in the order of their first steps, have copies in the middle level for
    their steps.
    """

    lifetimes: Lifetimes
    resident: tuple[str, ...]
    spilled: tuple[str, ...]
    steps: tuple[StepTiling, ...]
    table_bytes: int
    packing_slack: tuple[int, ...]
    groups: tuple[int, ...] = field(default=(), metadata={IF_ANY: True})
    tables: tuple[int, ...] = field(default=(), metadata={IF_ANY: True})
    residencies: tuple[Residency, ...] = field(default=(), metadata={IF_ANY: True})

    @property
    def depth(self) -> int:
        """Levels that the plan uses."""
        return 1 + L_OUTER if self.spilled else load(self.lifetimes.schedule.options.target).least_depth

    def home_level(self, storage: str) -> int:
        """Number of the level a storage has its home in."""
        return L_INNER if storage in self.resident else L_OUTER if storage in self.spilled else L_HOME


@dataclass(frozen=True)
class Home:
    """A storage's place for its whole life: byte offset from the level's first byte."""

    storage: str
    type: TensorType
    level: str
    offset: int
    bytes: int
    first: int
    last: int
    loaded: bool
    persistent: bool


@dataclass(frozen=True)
class PlanOperand:
    """A kernel pointer: where its tensor's home is, and its slots at the inner level (none: resident).

    A spilled operand has slots in the middle level as well, the stage's. One that is used `at_home` has slots nowhere
    else.
    """

    arg: str
    tensor: str
    storage: str
    mode: Mode
    view: tuple[int, ...]
    axes: tuple[Axis, ...]
    overwrite_on_first_pass: bool
    slots: int
    slot_bytes: int
    slot_offset: int
    stage_slots: int
    stage_bytes: int
    stage_offset: int
    at_home: bool = field(default=False, metadata={IF_ANY: True})

    @property
    def places(self) -> tuple[Slots, ...]:
        """Its slots by the number of the level; none where it does not pass through."""
        inner = Slots(self.slots, self.slot_bytes, self.slot_offset)
        return inner, Slots(self.stage_slots, self.stage_bytes, self.stage_offset)

    def at(self, places: Sequence[Slots]) -> "PlanOperand":
        """The operand with these slots, by the number of the level."""
        inner, stage = places
        return replace(
            self, slots=inner.count, slot_bytes=inner.bytes, slot_offset=inner.offset,
            stage_slots=stage.count, stage_bytes=stage.bytes, stage_offset=stage.offset,
        )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse a name that is no identifier of C: a plan may come from a file."""
        identifier(self.arg)


@dataclass(frozen=True)
class PlanDim:
    """A dim with its extent, the length of a stage's tile (the extent where nothing is staged) and of a tile."""

    name: str
    size: int
    outer: int
    tile: int
    reduction: bool

    def __post_init__(self) -> None:
        """Refuse a name that is no identifier of C: a plan may come from a file."""
        identifier(self.name)

    @property
    def outer_spans(self) -> tuple[Span, ...]:
        """(start, length) of the stage's tiles along the dim."""
        return tuple(span for span, _ in nested(self.size, self.outer, self.tile))

    @property
    def pieces(self) -> tuple[Span, ...]:
        """(start, length) of all tiles along the dim: the stage's tiles, each cut again."""
        return tuple(p for _, pieces in nested(self.size, self.outer, self.tile) for p in pieces)

    @property
    def count(self) -> int:
        """Number of tiles along the dim."""
        return len(self.pieces)


@dataclass(frozen=True)
class Timeline:
    """Model cycles spent waiting for ingress and for egress, an entry per tile."""

    ingress_wait: tuple[int, ...]
    egress_wait: tuple[int, ...]


@dataclass(frozen=True)
class Staging:
    """The stage of a step: loop order, buffering, bytes moved, and cycles in which its engine is busy and waited for.

    Busy cycles in which nobody waits are hidden under the inner loops.
    """

    order: tuple[str, ...]
    buffering: Buffering
    bytes_in: int
    bytes_out: int
    busy: int
    wait: int


@dataclass(frozen=True)
class PlanStep:
    """A step as it will be emitted. `dims` are in loop order; `tile_cycles` the model's cost of each kernel call."""

    index: int
    name: str
    graph: str
    op: str
    kernel: Kernel
    args: dict[str, ArgValue]
    dims: tuple[PlanDim, ...]
    buffering: Buffering
    operands: tuple[PlanOperand, ...]
    tile_cycles: tuple[int, ...]
    timeline: Timeline
    cycles: int
    bytes_in: int
    bytes_out: int
    staging: Staging | None
    variant: str = field(default="", metadata={IF_ANY: True})

    @property
    def function(self) -> str:
        """The C function of its kernel calls: the kernel variant, or else the general kernel."""
        return identifier(function_name(self.kernel.symbol, self.variant))

    @property
    def op_label(self) -> str:
        """The operator's name, joined by `+` with those of the operators that its kernel applies to its result."""
        epilogues = [(n, op.fusion.epilogue) for n, op in registry().items() if op.fusion and op.fusion.epilogue]
        fusion = registry()[self.op].fusion if self.op in registry() else None
        reused = fusion.reused if fusion else {}
        pointers = {operand.arg for operand in self.operands}
        pointers |= {pointer for pointer, (_, attribute) in reused.items() if self.args.get(attribute) == Const(1)}
        names = [n for n, f in epilogues if self.args.get(f.scalar) == Const(1) or f.pointer in pointers]
        return "+".join([self.op, *names])

    @property
    def tiles(self) -> int:
        """Number of kernel calls."""
        return len(self.tile_cycles)


@dataclass(frozen=True)
class Plan:
    """Every decision, so that the emitter only prints. `digest` identifies the tiling; `running` changes no digest.

    Argument tables are the first `table_bytes` of the innermost level; `groups`, `tables`, `residencies` are the
    tiling's.
    """

    options: Options
    digest: str
    levels: tuple[LevelUse, ...]
    table_bytes: int
    homes: tuple[Home, ...]
    graphs: tuple[str, ...]
    steps: tuple[PlanStep, ...]
    data: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[str, ...]
    storage_of: dict[str, str]
    running: RunOptions = field(metadata={OUTSIDE_DIGEST: True})
    groups: tuple[int, ...] = field(default=(), metadata={IF_ANY: True})
    tables: tuple[int, ...] = field(default=(), metadata={IF_ANY: True})
    cross_step_transfers: tuple[CrossStepTransfer, ...] = field(default=(), metadata={IF_ANY: True})
    fused_launches: tuple[FusedLaunch, ...] = field(default=(), metadata={IF_ANY: True})
    residencies: tuple[Residency, ...] = field(default=(), metadata={IF_ANY: True})
    rewrites: tuple[str, ...] = field(default=(), metadata={IF_ANY: True})

    def __post_init__(self) -> None:
        """Refuse a name that is no identifier of C: a plan may come from a file."""
        for graph in self.graphs:
            identifier(graph)

    def home(self, storage: str) -> Home:
        """The home of a storage."""
        return next(h for h in self.homes if h.storage == storage)

    @property
    def accumulators(self) -> tuple[Home, ...]:
        """Homes whose content outlives every pass and was computed: accumulators that several passes add to."""
        return tuple(h for h in self.homes if h.persistent and not h.loaded)

    def cycles(self, graph: str) -> int:
        """Predicted cycles of one pass over a graph."""
        return sum(s.cycles for s in self.steps if s.graph == graph)
