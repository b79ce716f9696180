"""Plans and tilings that come back from files: what they must agree with before anything is made of them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import FileProblem, OptionProblem, VerifyFailed
from deployer.core.plan import Options, Plan, Running, Tiling
from deployer.core.target import load
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
    "no_fusion": ("--no-fusion", "fuse"),
    "fused": ("--fused", "fused"),
    "defaultMemLevel": ("--defaultMemLevel", "outermost"),
}
"""Per argument of the command line its flag and the field of the options it sets; budgets are besides."""


def plan_from(path: Path) -> Plan:
    """A plan as the deployer wrote it: sealed, sound by itself, and that of the tiling.json beside it where one is.

    FileProblem where it is not.
    """
    plan = artefact.load(Plan, path, sealed=True)
    with judged(path):
        verify_plan_alone(plan)
    beside = path.with_name("tiling.json")
    if beside.is_file():
        _check_beside(plan, path, pipeline.tiling_from(beside, sealed=True), beside)
    return plan


def _check_beside(plan: Plan, path: Path, tiling: Tiling, beside: Path) -> None:
    found = artefact.digest(tiling)
    if plan.digest != found:
        facts = [("made from", f"{plan.digest}, beside it lies {found}")]
        hint = "`deployer compile --from` makes the plan of an edited tiling; else keep them in folders of their own"
        raise FileProblem(f"{path} is not the plan of {beside}", facts, hint)
    with judged(beside):
        verify_program(tiling.lifetimes.schedule.program)
        verify_tiling(tiling)
    with judged(path):
        verify_plan(plan, tiling)


def existing(case: Case, directory: Path, running: Running) -> Plan:
    """The plan in an output folder, of this case, with the input file of this case beside it; FileProblem otherwise.

    The C there may be edited: it is what will be built. OptionProblem where it runs otherwise than is asked for.
    """
    plan, tiling, data = (directory / name for name in ("plan.json", "tiling.json", "input.bin"))
    for path in (plan, tiling, data):
        if not path.is_file():
            raise FileProblem(f"{path} does not exist", hint="run once without --skipgen")
    pipeline.check_origin(case, pipeline.tiling_from(tiling, sealed=True), tiling)
    found = plan_from(plan)
    check_running(running, found.running, plan)
    if data.read_bytes() != pipeline.input_bytes(case, found):
        raise FileProblem(f"{data} holds other numbers than {case.directory}", hint="run once without --skipgen")
    return found


@contextmanager
def judged(path: Path) -> Iterator[None]:
    """What a judge finds inside is a fault of the file."""
    try:
        yield
    except VerifyFailed as fault:
        raise FileProblem(f"{path} breaks a rule: {fault.cause}", fault.facts, "make it again") from fault


def check_agreement(given: Collection[str], asked: Options, made: Options, path: Path) -> None:
    """OptionProblem where a file was made with other options than the command line gave.

    What the command line is silent about is as in the file.
    """
    facts = []
    for argument, (flag, field) in FLAGS.items():
        wanted, found = getattr(asked, field), getattr(made, field)
        if argument in given and wanted != found:
            facts.append((flag, f"{wanted}, in the file {found}"))
    target = load(asked.target)
    for level in target.levels:
        wanted, found = (asked.budgets or {}).get(level.name), (made.budgets or {}).get(level.name)
        if wanted not in (None, found):
            facts.append((target.budget_flag(level), f"{wanted}, in the file {found or 'none'}"))
    _refuse(facts, path)


def check_running(asked: Running, made: Running, path: Path) -> None:
    """OptionProblem where the harness beside a plan does something else than is asked for, be it in silence.

    The tolerance decides the verdict, and no file overrules it.
    """
    facts = []
    if asked.passes != made.passes:
        facts.append(("passes", f"{asked.passes}, in the file {made.passes}"))
    if asked.tolerance != made.tolerance:
        facts.append(("--tolerance", f"{asked.tolerance:g}, in the file {made.tolerance:g}"))
    _refuse(facts, path)


def _refuse(facts: Sequence[tuple[str, str]], path: Path) -> None:
    if facts:
        hint = "ask for what the file was made with, or make it again"
        raise OptionProblem(f"{path} was made with other options than the command line has", facts, hint)
