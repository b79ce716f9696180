"""Re-entry: plans and tilings from files are checked against each other, the case and the command line."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import FileProblem, OptionProblem, VerifyFailed
from deployer.core.plan import Options, Plan, RunOptions, Tiling
from deployer.core.target import load
from deployer.lr_schedules.windows import PARTIAL_ACCUMULATION
from deployer.pipeline import Case
from deployer.verify.plan import verify_plan
from deployer.verify.plan_alone import verify_plan_alone
from deployer.verify.program import verify_program
from deployer.verify.tiling import verify_tiling

FLAGS = {
    "platform": ("-p", "target"),
    "buffering": ("--buffering", "strategy"),
    "cores": ("--cores", "cores"),
    "opt_out": ("--opt-out", "opt_out"),
    "no_fusion": ("--no-fusion", "allow_rewrites", "disabled_rewrites"),
    "fuse_update": ("--fused", "fuse_update"),
    "no_ahead": ("--no-ahead", "cross_step_prefetch"),
    "canonical_batch": ("--canonical-batch", "canonical_batch"),
    "defaultMemLevel": ("--defaultMemLevel", "outermost"),
}
"""For each argument of the command line its flag and its fields of Options; budgets are checked separately."""


def plan_from(path: Path) -> Plan:
    """An unedited plan from a file, checked alone and, if the folder has a tiling.json, against that.

    Raises FileProblem where a check fails.
    """
    plan = artefact.load(Plan, path, sealed=True)
    with judged(path):
        verify_plan_alone(plan)
    neighbour = path.with_name("tiling.json")
    if neighbour.is_file():
        _check_tiling(plan, path, pipeline.tiling_from(neighbour, sealed=True), neighbour)
    return plan


def _check_tiling(plan: Plan, path: Path, tiling: Tiling, tiling_path: Path) -> None:
    digest = artefact.digest(tiling)
    if plan.digest != digest:
        facts = [("made from", f"{plan.digest}, the file beside it has {digest}")]
        hint = "`deployer compile --from` makes the plan of an edited tiling; else keep them in folders of their own"
        raise FileProblem(f"{path} is not the plan of {tiling_path}", facts, hint)
    with judged(tiling_path):
        verify_program(tiling.lifetimes.schedule.program)
        verify_tiling(tiling)
    with judged(path):
        verify_plan(plan, tiling)


def existing(case: Case, directory: Path, running: RunOptions) -> Plan:
    """The plan in an output folder, of this case, with the input file of this case beside it; FileProblem otherwise.

    The C may be edited, and is built as it is. OptionProblem where passes, tolerance or checks differ from `running`.
    """
    plan_path, tiling, data = (directory / name for name in ("plan.json", "tiling.json", "input.bin"))
    for path in (plan_path, tiling, data):
        if not path.is_file():
            raise FileProblem(f"{path} does not exist", hint="run once without --skipgen")
    pipeline.check_origin(case, pipeline.tiling_from(tiling, sealed=True), tiling)
    plan = plan_from(plan_path)
    check_running(running, plan.running, plan_path)
    if data.read_bytes() != pipeline.input_bytes(case, plan):
        raise FileProblem(f"{data} holds other numbers than {case.directory}", hint="run once without --skipgen")
    return plan


@contextmanager
def judged(path: Path) -> Iterator[None]:
    """Within this context the error of a check becomes a FileProblem of the file."""
    try:
        yield
    except VerifyFailed as fault:
        raise FileProblem(f"{path} breaks a rule: {fault.cause}", fault.facts, "make it again") from fault


def check_agreement(arguments: Collection[str], request: Options, origin: Options, path: Path) -> None:
    """Raise OptionProblem where the options of a file differ from those on the command line.

    Options that the command line does not name are as in the file.
    """
    facts = []
    for argument, (flag, *fields) in FLAGS.items():
        for requested, stored in ((getattr(request, field), getattr(origin, field)) for field in fields):
            if argument in arguments and requested != stored:
                facts.append((flag, f"{requested}, in the file {stored}"))
    target = load(request.target)
    for level in target.levels:
        requested, stored = (request.budgets or {}).get(level.name), (origin.budgets or {}).get(level.name)
        if requested not in (None, stored):
            facts.append((target.budget_flag(level), f"{requested}, in the file {stored or 'none'}"))
    _refuse(facts, path)


def check_running(request: RunOptions, origin: RunOptions, path: Path) -> None:
    """Raise OptionProblem where passes, tolerance or checks of a plan are not those of the command, defaults included.

    The tolerance decides the verdict, and no file overrules it.
    """
    facts = []
    if request.passes != origin.passes:
        facts.append(("passes", f"{request.passes}, in the file {origin.passes}"))
    if request.tolerance != origin.tolerance:
        facts.append(("--tolerance", f"{request.tolerance:g}, in the file {origin.tolerance:g}"))
    if request.flush != origin.flush:
        facts.append(("--partial-accumulation", f"{_word(request)}, in the file {_word(origin)}"))
    if request.checked != origin.checked:
        facts.append(("--check-passes", f"{request.checked}, in the file {origin.checked}"))
    _refuse(facts, path)


def _word(running: RunOptions) -> str:
    return PARTIAL_ACCUMULATION[running.flush]


def _refuse(facts: Sequence[tuple[str, str]], path: Path) -> None:
    if facts:
        hint = "ask for what the file was made with, or make it again"
        raise OptionProblem(f"{path} was made with other options than the command line has", facts, hint)
