"""Programs whose optimizers read their rates at run time: the changed nodes, and the numbers that the program reads.

An optimizer's node then has no rate, but the attribute AT: its group, all nodes of one rate, and the place of its
numbers among those that the program reads at each update. These are the scalars of the kernel that depend on the rate,
as the operator computes them of a constant rate: such a program has the bits of one whose rate is a constant, and does
not change with the rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deployer.core.access import Access
from deployer.core.errors import OptionProblem
from deployer.core.ir import AttrValue, Graph, Node, Program
from deployer.core.kernel import MOST_NUMBERS, ArgValue, Const, UpdateNumber
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, fused_update, operator_of, registry
from deployer.core.traits.training import Optimizer

AT = "rate_at"
"""The attribute of an optimizer's node with its group and the place of its first number."""


def with_run_time_rates(program: Program) -> tuple[Program, tuple[float, ...]]:
    """The program with rates that it takes when it runs, and the rate that each group had.

    OptionProblem where nothing in the program has a rate.
    """
    train, optimizer = program.graphs
    groups: dict[float, int] = {}
    places: dict[tuple[object, ...], tuple[int, int]] = {}
    nodes, count = list[Node](), 0
    for node in optimizer.nodes:
        declared = operator_of(node).role(Optimizer)
        if declared is None:
            nodes.append(node)
            continue
        rate = float(np.float32(node.attr_float(declared.rate, declared.default_rate)))
        attrs: dict[str, AttrValue] = {name: value for name, value in node.attrs.items() if name != declared.rate}
        kind = (node.op, rate, *sorted(attrs.items()))
        if kind not in places:
            places[kind] = groups.setdefault(rate, len(groups)), count
            count += len(declared.rated)
        nodes.append(replace(node, attrs={**attrs, AT: places[kind]}))
    if not groups or count > MOST_NUMBERS:
        facts = [("numbers of an update", str(count)), ("at most", str(MOST_NUMBERS))]
        raise OptionProblem("the optimizer graph has no rates that can be set as it runs", facts, "no --lr-scheduler")
    return replace(program, graphs=(train, Graph(optimizer.name, tuple(nodes)))), tuple(groups)


def rate_groups(program: Program) -> int:
    """Number of groups of nodes whose rate is set at run time; 0 if rates are constants."""
    return 1 + max((group for group, _ in map(_at, program.nodes) if group >= 0), default=-1)


def at_rates(node: Node, rates: Sequence[float]) -> Node:
    """The node with the rate of its group as a constant, from those of an update; a node without a group as it is."""
    if AT not in node.attrs:
        return node
    group, _ = _at(node)
    declared = operator_of(node).role(Optimizer)
    if group < 0 or declared is None:
        return node
    attrs: dict[str, AttrValue] = {name: value for name, value in node.attrs.items() if name != AT}
    return replace(node, attrs={**attrs, declared.rate: float(rates[group])})


def kernel_args(node: Node, access: Access, model: KernelModel) -> dict[str, ArgValue]:
    """The arguments of the node's kernel; those that depend on a rate that is taken at run time are update numbers."""
    operator = operator_of(node)
    args = operator.args(node, access) | operator.model_args(node, access, model)
    declared = applied_by(operator)
    group, place = _at(node)
    if group < 0 or declared is None:
        return args
    return args | {name: UpdateNumber(place + i) for i, name in enumerate(declared.rated)}


def applied_by(operator: Operator) -> Optimizer | None:
    """The optimizer whose formula the operator applies: its own, or that of the update that it is a joint form of."""
    update = fused_update(operator)
    return (registry()[update] if update else operator).role(Optimizer)


def update_numbers(program: Program, rates: Sequence[float]) -> Array:
    """The float32 numbers that the program reads at an update with these rates, one for each group."""
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    by_place = {_at(node)[1]: node for node in program.nodes if AT in node.attrs}
    numbers: list[float] = []
    for place in sorted(by_place):
        node = at_rates(by_place[place], rates)
        operator = operator_of(node)
        declared = operator.role(Optimizer)
        assert declared is not None, f"{node.op} has a rate and is not an optimizer"
        args = operator.args(node, operator.access(node, types))
        for name in declared.rated:
            value = args[name]
            assert isinstance(value, Const), f"{node.op}: {name} is not a constant"
            numbers.append(value.value)
    with np.errstate(over="ignore"):
        return np.array(numbers, np.float32)


PROBES = (0.5, 0.01, 0.0003, 1.7)
"""Rates at which the numbers of an update are compared with what a rule makes of the rate."""


@dataclass(frozen=True)
class NumberRule:
    """A number of an update by the rate of a group: the rate itself, a constant, or 1 - rate * `decay`."""

    group: int
    constant: float | None = None
    decay: float | None = None

    def of(self, rates: Sequence[float] | Mapping[int, float]) -> float:
        """The number at these rates, which are float32."""
        if self.constant is not None:
            return self.constant
        return rates[self.group] if self.decay is None else 1 - rates[self.group] * self.decay


def number_rules(program: Program, rates: Sequence[float]) -> tuple[NumberRule | None, ...]:
    """The rule of each number of an update, found at some rates of each group; None for a number without one."""
    groups = range(rate_groups(program))
    declared = [(node, operator_of(node).role(Optimizer)) for node in program.nodes]
    decays = sorted({s.of(node) for node, optimizer in declared if optimizer for s in optimizer.settings})
    samples = {group: _probed(program, list(rates), group) for group in groups}
    rules: list[NumberRule | None] = []
    for place in range(len(next(iter(samples[0].values()), ()))):
        owner = next((g for g in groups if len({row[place] for row in samples[g].values()}) > 1), 0)
        rules.append(_rule(owner, {rate: row[place] for rate, row in samples[owner].items()}, decays))
    return tuple(rules)


def _rule(group: int, column: Mapping[float, float], decays: Sequence[float]) -> NumberRule | None:
    """The rule that gives the numbers of a column at its rates."""
    if len(set(column.values())) == 1:
        return NumberRule(group, constant=next(iter(column.values())))
    for rule in (NumberRule(group), *(NumberRule(group, decay=decay) for decay in decays)):
        if all(float(np.float32(rule.of({group: rate}))) == number for rate, number in column.items()):
            return rule
    return None


def _probed(program: Program, rates: list[float], group: int) -> dict[float, list[float]]:
    """The numbers of an update by some rates of a group, the others as they are."""
    result = {}
    for probe in PROBES:
        rate = float(np.float32(probe))
        result[rate] = update_numbers(program, [*rates[:group], rate, *rates[group + 1 :]]).tolist()
    return result


def _at(node: Node) -> tuple[int, int]:
    """The group and the place; -1 for a node without."""
    if AT not in node.attrs:
        return -1, -1
    group, place = node.attr_ints(AT, ())
    return group, place
