"""Verdict on a case's run: its judge, the first wrong step, and the values of flipped decisions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deployer import __version__
from deployer.core.plan import Plan
from deployer.pipeline import Case, expectation
from deployer.planning import fuse
from deployer.reports import facts
from deployer.reports.facts import RunFacts
from deployer.reports.run_page import Figures, figures_of
from deployer.running.report import Report, make_report
from deployer.running.run import Outcome
from deployer.running.watch import Divergence, can_watch, computed, first_divergence
from deployer.verify.checked import state_homes
from deployer.verify.checks import Explained, Judge
from deployer.verify.same_state import Recorded, recorded_passes


def judge_of(case: Case, plan: Plan, outcome: Outcome, tolerance: float) -> Judge | None:
    """The judge of the passes whose states the run dumped; None where it dumped none, or nothing trains."""
    if case.dataset is None or not plan.running.checked:
        return None
    names = [home.storage for home in state_homes(plan)]
    final = {name: outcome.accumulators.get(name, outcome.arrays.get(name)) for name in names}
    recorded = Recorded(outcome.states, {n: a for n, a in final.items() if a is not None}, outcome.losses)
    passes = recorded_passes(case.program, case.dataset, recorded, plan.running.checked)
    return Judge(case.program, case.dataset, tolerance, passes)


def judged(
    case: Case, plan: Plan, outcome: Outcome, tolerance: float, relative: float = 0.0
) -> tuple[Report, Judge | None]:
    """The report of a run with its verdict, and the judge of its states."""
    judge = judge_of(case, plan, outcome, tolerance)
    expected = expectation(case, plan, judge.begun if judge and plan.accumulators else None)
    return make_report(plan, outcome, expected, tolerance, relative, judge), judge


def divergence(case: Case, plan: Plan, judge: Judge, directory: Path, index: int) -> tuple[Divergence | None, str]:
    """The first diverging step of a checked pass, and what can be said of it; it runs the program again."""
    if case.dataset is None or not can_watch(plan):
        return None, f"not looked for: {plan.options.target} does not show what steps compute, the host does"
    before = next(one.before for one in judge.passes if one.index == index)
    fused = fuse.fuse_program(case.program, plan.options)
    first = first_divergence(fused, case.dataset, before, plan, directory, index)
    if first is None:
        return None, f"none in pass {index}: what each step computes is what its own operands give"
    return first, f"pass {index}, {first}"


def with_values(case: Case, plan: Plan, explained: Sequence[Explained], directory: Path) -> tuple[Explained, ...]:
    """The explained units with what the program had there: the value that decided or, where a step joined that with
    its operator, the operator's result. It runs the program again.
    """
    fused = fuse.fuse_program(case.program, plan.options)
    outputs = {node.name: node.outputs for node in case.program.nodes}
    rows = []
    for unit in explained:
        flip = unit.flip
        types = {n: case.program.tensors[n].type for n in (flip.tensor, *outputs[flip.node])}
        names = [n for n, kind in types.items() if kind == types[flip.tensor] and n in fused.tensors]
        values = computed(fused, plan, directory, flip.index, names) if can_watch(plan) and unit.own else {}
        available = [n for n in names if n in values]
        if available:
            place = f"{available[0]}{list(flip.element)}"
            unit = replace(unit, shown=place, computed=float(values[available[0]][flip.element]))
        rows.append(unit)
    return tuple(rows)


def run_facts(case: Case, plan: Plan, result: Report, command: str) -> RunFacts:
    """Model, data and settings of a case's run."""
    program, dataset = case.program, case.dataset
    rates = dataset.rates if dataset is not None else None
    varied = rates is not None and rates.size > 0
    first = tuple(map(float, dict.fromkeys(rates[0].tolist()))) if rates is not None and varied else ()
    return RunFacts(
        model=case.directory.name,
        dataset=f"{case.passes} passes of the case's samples" if case.passes > 1 else "one pass of the case's samples",
        loss=facts.loss_name(program),
        optimizer=facts.optimizer_names(program),
        learning_rates=first or facts.learning_rates(program),
        lr_schedule="of the run" if varied else "",
        batch=facts.batch_size(program),
        accumulation=plan.options.accumulate,
        parameters=facts.parameter_count(result.tensors),
        target=plan.options.target,
        version=__version__,
        command=command,
    )


def figures(case: Case, plan: Plan) -> Figures:
    """Content of the pictures of a case's report."""
    return figures_of(plan, fuse.fuse_program(case.program, plan.options))
