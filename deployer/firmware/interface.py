"""Views of a library's header: inputs and their ranges, the prediction, weights, rates, and their sizes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deployer.codegen.c_names import Names
from deployer.codegen.c_text import float_literal
from deployer.codegen.harness import data_homes, data_read
from deployer.codegen.kernel_headers import C_TYPES
from deployer.codegen.render import number_count
from deployer.core.errors import OptionProblem
from deployer.core.ir import Graph, Program, TensorType
from deployer.core.operator import numerics_of
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, c_comment, c_string, code, markdown_code
from deployer.firmware.bill import unique
from deployer.firmware.byte_inputs import InputScale
from deployer.firmware.prediction import FEATURES, OWN, PREDICT, SINGLE, known_name
from deployer.firmware.steps import MEMBERS, TRAIN, index_text
from deployer.lr_schedules.run_time import NumberRule, number_rules, rate_groups

NO_PURPOSE = code("")
PREDICTIONS = {PREDICT: ("predict", "", ""), SINGLE: ("predict_single", "single_", " for one token")}
"""The functions of graphs that predict, what is before the names of their outputs, and what they are for."""


@dataclass(frozen=True)
class TensorView:
    """Tensor of a library's interface: its name in C, its name in the model, its type, and its location.

    `member` is the view of the memory by its element type, `home` the index of its place there; `purpose` says what an
    input is for, if not for all calls, and `meaning` what its numbers stand for, if not for themselves.
    """

    name: CText
    upper: CText
    label: CText
    type: CText
    shape: CText
    count: int
    member: CText
    home: CText
    purpose: CText = NO_PURPOSE
    meaning: CText = NO_PURPOSE

    @property
    def cell(self) -> CText:
        """The model's name for the tensor, as Markdown code."""
        return markdown_code(self.label)


@dataclass(frozen=True)
class RangeView:
    """Numbers that an input of class numbers may hold: `count` of them from `least` on, and `spare`.

    `graphs` has the bits of the graphs for which it counts (`graph_bit`).
    """

    home: CText
    size: int
    least: int
    most: int
    spare: int
    graphs: int


@dataclass(frozen=True)
class PredictionView:
    """A graph that predicts: its function, what it is for, its bit among those of ranges, the views of its outputs."""

    name: CText
    purpose: CText
    bit: int
    outputs: tuple[TensorView, ...]


@dataclass(frozen=True)
class WeightView:
    """A weight or a state of the optimizer."""

    label: CText
    shape: CText
    home: CText
    count: int
    whole: int


@dataclass(frozen=True)
class RateView:
    """A group of weights with a rate of their own: its number, the rate it begins with, and the numbers that follow."""

    group: int
    rate: CText
    lines: tuple[CText, ...]


def shape_text(kind: TensorType) -> str:
    """A shape as C has it behind a name; of a scalar, one element."""
    return "".join(f"[{length}]" for length in kind.shape) or "[1]"


def input_views(plan: Plan, program: Program, names: Names, scales: Mapping[str, InputScale]) -> tuple[TensorView, ...]:
    """The data inputs that some step reads; `scales` say what numbers of 8 bits stand for."""
    read = data_read(plan)
    views = (
        _input(name, suffix, program, names.home(plan.storage_of[name]))
        for name, suffix in zip(read, unique(read), strict=True)
    )
    meanings = [f", n stands for {scales[name].formula}" if name in scales else "" for name in read]
    return tuple(replace(view, meaning=code(text)) for view, text in zip(views, meanings, strict=True))


def _input(name: str, suffix: CText, program: Program, home: CText) -> TensorView:
    view = _tensor(known_name(name), suffix, program.tensors[name].type, home)
    graphs = [graph for graph in PREDICTIONS if name.startswith(OWN[graph])]
    first = program.graphs[0].name
    if first == TRAIN and not graphs and name not in program.data_of(first):
        return replace(view, purpose=code(", for features and predictions"))
    return replace(view, purpose=code(f", for predictions{PREDICTIONS[graphs[0]][2]}")) if graphs else view


def prediction_views(plan: Plan, program: Program, names: Names) -> tuple[PredictionView, ...]:
    """The views of the graphs that predict, in order; the only output of one is called `output`."""
    return tuple(_prediction(graph, plan, program, names) for graph in plan.graphs if graph in PREDICTIONS)


def _prediction(graph: str, plan: Plan, program: Program, names: Names) -> PredictionView:
    function, prefix, purpose = PREDICTIONS[graph]
    given = outputs_of(graph, program)
    suffixes = [f"output_{suffix}" for suffix in unique(given)] if len(given) > 1 else ["output"]
    outputs = (
        _tensor(known_name(name), code(prefix + suffix), program.tensors[name].type, names.home(plan.storage_of[name]))
        for name, suffix in zip(given, suffixes, strict=True)
    )
    return PredictionView(code(function), code(purpose), graph_bit(program, graph), tuple(outputs))


def outputs_of(graph: str, program: Program) -> list[str]:
    """The outputs of a graph."""
    return [name for name in program.outputs if program.made_in(program.storage(name)) == graph]


def features_view(plan: Plan, program: Program, names: Names) -> PredictionView | None:
    """The view of the graph that computes latents, if there is one."""
    given = outputs_of(FEATURES, program)
    if not given:
        return None
    [name] = given
    latent = _tensor(known_name(name), code("latent"), program.tensors[name].type, names.home(plan.storage_of[name]))
    return PredictionView(code(FEATURES), NO_PURPOSE, graph_bit(program, FEATURES), (latent,))


def graph_bit(program: Program, graph: str) -> int:
    """The bit of a graph in the `graphs` of ranges."""
    return 1 << [known.name for known in program.graphs].index(graph)


def _tensor(name: str, suffix: CText, kind: TensorType, home: CText) -> TensorView:
    return TensorView(
        name=suffix,
        upper=code(suffix.upper()),
        label=c_comment(name),
        type=code(C_TYPES[kind.dtype]),
        shape=code(shape_text(kind)),
        count=kind.size,
        member=code(MEMBERS[kind.dtype]),
        home=index_text(kind.dtype, home),
    )


def weight_views(
    plan: Plan, program: Program, names: Names, among: Collection[str] | None = None
) -> tuple[WeightView, ...]:
    """The weights, and what optimizer and norms keep, in the plan's order; all, or those `among` others."""
    kinds = {name: program.tensors[name].type for name in plan.weights if among is None or name in among}
    return tuple(
        WeightView(
            c_string(name),
            code(shape_text(kind)),
            names.home(plan.storage_of[name]),
            kind.size,
            int(kind.dtype == "int32"),
        )
        for name, kind in kinds.items()
    )


def range_views(plan: Plan, program: Program, names: Names) -> tuple[RangeView, ...]:
    """The data inputs by which nodes choose: a number outside would lead beyond a tensor."""
    homes = {home.storage: home for home in data_homes(plan)}
    found: dict[tuple[str, int, int, int], set[str]] = {}
    for graph in program.graphs:
        for storage, least, most, spare in _choices(program, graph):
            if storage in homes:
                found.setdefault((storage, least, most, spare), set()).add(graph.name)
    return tuple(
        RangeView(
            names.home(storage),
            homes[storage].type.size,
            least,
            most,
            spare,
            sum(graph_bit(program, graph) for graph in used),
        )
        for (storage, least, most, spare), used in found.items()
    )


def _choices(program: Program, graph: Graph) -> Iterator[tuple[str, int, int, int]]:
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for node in graph.nodes:
        indices = numerics_of(node).indices(node, types)
        if indices:
            spare = indices.least if indices.ignored is None else indices.ignored
            yield program.storage(indices.input), indices.least, indices.least + indices.count - 1, spare


def rate_views(plan: Plan, program: Program, rates: Sequence[float]) -> tuple[RateView, ...]:
    """The groups with a rate of their own, which begin with `rates`, and the numbers of an update by each.

    OptionProblem for an optimizer whose numbers follow from the rate in another way than rules of numbers know.
    """
    lines: dict[int, list[CText]] = {group: [] for group in range(rate_groups(program))}
    for place, rule in enumerate(number_rules(program, rates) if number_count(plan) else ()):
        if rule is None:
            cause = "the optimizer's scalars depend on the learning rate in a way that the library cannot compute"
            raise OptionProblem(cause)
        lines[rule.group].append(code(f"model->numbers[{place}] = {_formula(rule)};"))
    return tuple(RateView(group, code(float_literal(rates[group])), tuple(lines[group])) for group in lines)


def _formula(rule: NumberRule) -> str:
    """The C of a number of an update."""
    if rule.constant is not None:
        return float_literal(rule.constant)
    return "rate" if rule.decay is None else f"(float)(1.0 - (double)rate * (double){float_literal(rule.decay)})"
