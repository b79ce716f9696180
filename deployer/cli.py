"""The `deployer` command: options to the pipeline's arguments, errors to exit codes."""

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NoReturn

from deployer import __version__, ending
from deployer.core.level import ALIASES
from deployer.core.safe_text import escaped
from deployer.fit_options import add_export_options, add_fit_options
from deployer.package_options import add_package_options
from deployer.rates.windows import ACCUMULATIONS, LEFTOVERS
from deployer.values import UNITS, axis, budget, finite, numbers, passes, path, positive, seed, size, tolerance, whole
from deployer.verify.checked import FIRST_CHECKS, STATES_BYTES
from deployer.verify.tolerances import TOLERANCES

PIPE_WIDTH = 140
"""The width of tables, in columns, without a terminal."""
SETTING = "setting:"
"""Before the name of a setting, where the arguments have its number."""
BUFFERINGS = ("auto", "single", "double", "training_double", "double_l3")


class _Parser(argparse.ArgumentParser):
    """A parser whose messages hold the words of the command line on one line each.

    `late` adds options that take long to know, when the command line or the help has come to this parser.
    """

    late: Callable[["_Parser"], None] | None = None

    def complete(self) -> None:
        """Add the late options, once."""
        if (late := self.late) is not None:
            self.late = None
            late(self)
            self.set_defaults(**self._defaults)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parse with all options."""
        self.complete()
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """The help, with all options."""
        self.complete()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with 2."""
        super().error(escaped(message))


class _Choices(Collection[str]):
    """What operators declare as choices of an option; the operators are loaded when the option or its help is read."""

    def __init__(self, names: Callable[[], Collection[str]]) -> None:
        self._names = names

    def __contains__(self, value: object) -> bool:
        """Whether some operator declares this choice."""
        return value in self._names()

    def __iter__(self) -> Iterator[str]:
        """The names of the choices, sorted, with the usual optimizer first."""
        return iter(self._names())

    def __len__(self) -> int:
        """The number of choices."""
        return len(self._names())


def parser(silent: Collection[str] = ()) -> argparse.ArgumentParser:
    """The command line; arguments named in `silent` have no default but None."""
    top = _Parser(
        prog="deployer",
        description="Compile neural-network training graphs to C for microcontrollers, run it, check every weight.",
        epilog="exit codes: 0 well, 1 values beyond the tolerance, 2 a bad input, request or machine, 70 a fault of the"
        " compiler, with a report; 128 and the signal where one ended it",
    )
    top.add_argument("--version", action="version", version=f"deployer {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in (
        ("train", "compile a training case, run it, compare every loss and final weight"),
        ("optimizer", "compile and run the optimizer graph of a training case alone"),
        ("infer", "compile an inference case, run it, compare its outputs"),
    ):
        add_run_options(commands.add_parser(name, help=text, description=text))
    compile_text = "compile a case to C and stop"
    compiled = commands.add_parser("compile", help=compile_text, description=compile_text)
    add_run_options(compiled)
    compiled.add_argument(
        "--from",
        dest="from_file",
        type=path,
        metavar="tiling.json",
        help="start from this tiling, edited or not",
    )
    emit_text = "print the C of a plan.json again"
    emit = commands.add_parser("emit", help=emit_text, description=emit_text)
    emit.add_argument("--plan", type=path, required=True, metavar="plan.json")
    _add_output(emit, "where the C goes", required=True)
    _add_train_graph(commands)
    fit_text = "train a forward ONNX model over epochs, with validation, checkpoints and a report"
    fit = commands.add_parser("fit", help=fit_text, description=fit_text)
    fit.add_argument("model", type=path, metavar="model.onnx")
    _add_task(fit)
    add_fit_options(fit)
    _add_output(fit, "where checkpoints, trained weights, history.csv and report.html go", required=True)
    add_export_options(commands)
    package_text = "make a training case a library of C with an interface, for firmware"
    package = commands.add_parser("package", help=package_text, description=package_text)
    add_package_options(package)
    _add_output(package, "the library's folder", required=True)
    calibrate_text = "measure kernels, dispatch and DMA on a target and write its cost model"
    calibrate = commands.add_parser("calibrate", help=calibrate_text, description=calibrate_text)
    calibrate.add_argument("-p", "--platform", required=True, metavar="TARGET")
    calibrate.add_argument("--simulator", default="", metavar="TEXT", help="name and version of what it runs on")
    commands.add_parser("targets", help="list the targets and their memories")
    commands.add_parser("operators", help="list the operators and what they can do")
    for command in commands.choices.values():
        command.set_defaults(**dict.fromkeys(silent))
    return top


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; `given` holds the names of those on the command line, even where they equal the default."""
    arguments = parser().parse_args(argv)
    bare = vars(parser(tuple(vars(arguments))).parse_args(argv))
    arguments.given = frozenset(name for name, value in bare.items() if value is not None)
    return arguments


def add_run_options(p: _Parser) -> None:
    """Options of everything that compiles and runs a case."""
    case = p.add_argument_group("case")
    case.add_argument(
        "-t",
        "--test",
        type=path,
        required=True,
        metavar="DIR",
        help="folder of the test case; with infer and compile also a model.onnx, whose inputs are drawn",
    )
    _add_output(case, "where generated files go (default out/<case>/<platform>)")
    case.add_argument("--n-steps", type=positive, metavar="N", help="forward passes in all (default: as recorded)")
    case.add_argument("--n-accum", type=positive, metavar="N", help="passes per update (default: as recorded)")
    _add_leftover(case, "as recorded, or skip")
    _add_axes(case)
    case.add_argument("--data-inputs", type=positive, metavar="N", help="leading graph inputs that change per sample")
    case.add_argument("--learning-rate", type=finite, metavar="LR", help="replaces the optimizer's own")
    p.late = lambda _: add_rate_options(case, "default: constants of the graph, or what the case holds")
    case.add_argument(
        "--tolerance",
        type=tolerance,
        default=TOLERANCES.weight,
        metavar="T",
        help=f"largest absolute difference (default {TOLERANCES.weight:g}), less than the largest value compared;"
        f" an output of an inference case may differ by {TOLERANCES.relative:g} of its tensor's largest expected"
        " magnitude more; how far trained weights moved is judged besides",
    )
    case.add_argument(
        "--check-passes",
        type=passes,
        metavar="N|all|none",
        help="training passes that the float64 reference repeats from the program's own state (default: all up to"
        f" {FIRST_CHECKS}, then a fixed sample of so many, fewer where their states exceed {STATES_BYTES >> 20} MiB)",
    )
    case.add_argument("--strict", action="store_true", help="exit code 1 for a verdict `explained` as well")
    machine = p.add_argument_group("machine")
    machine.add_argument(
        "-p", "--platform", default="host", metavar="TARGET", help="see `deployer targets` (default host)"
    )
    units = ", ".join(f"{unit} {count}" for unit, count in UNITS.items() if unit).replace(" ", " is ", 1)
    machine.add_argument(
        "--budget",
        type=budget,
        action="append",
        default=[],
        metavar="LEVEL=BYTES",
        help="limit of a level of the target: slots, tensors, argument tables; may be repeated. BYTES may have a unit:"
        f" {units}, and a B behind it",
    )
    for alias, place in zip(ALIASES, ("the innermost level", "the next one out"), strict=True):
        machine.add_argument(f"--{alias}", type=size, metavar="BYTES", help=f"the same for {place}")
    machine.add_argument(
        "--defaultMemLevel",
        metavar="LEVEL",
        help="outermost level tensors may live in (default: the next one out from the innermost); what does not fit the"
        " levels inside of it is spilled there",
    )
    machine.add_argument("--cores", type=positive, metavar="N", help="cores that share a kernel")
    tiling = p.add_argument_group("buffering")
    mode = tiling.add_mutually_exclusive_group()
    mode.add_argument(
        "--buffering",
        choices=BUFFERINGS,
        default="auto",
        help="who decides (default auto: the cost model, per step)",
    )
    mode.add_argument(
        "--doublebuffer", action="store_const", const="double", dest="buffering", help="two slots per operand"
    )
    mode.add_argument(
        "--singlebuffer", action="store_const", const="single", dest="buffering", help="one slot per operand"
    )
    tiling.add_argument(
        "--opt-out",
        action="append",
        default=[],
        metavar="NAME",
        help="operator or node that training_double keeps single",
    )
    tiling.add_argument(
        "--no-fusion", action="store_true", help="leave out rewrites that save memory or time and change no bit"
    )
    tiling.add_argument(
        "--fused",
        action="store_true",
        help="one function for pass and update, with one pass per update: train_cycles counts both, opt_cycles is 0",
    )
    tiling.add_argument(
        "--jobs",
        type=positive,
        default=0,
        metavar="N",
        help="tilings that are solved at a time (default: as many as there are cores); no bit depends on it",
    )
    run = p.add_argument_group("run")
    run.add_argument("--dma-order", choices=("early", "late", "random"), help="when simulated transfers happen (early)")
    run.add_argument(
        "--core-order", choices=("forward", "reverse", "random"), help="order of simulated cores (forward)"
    )
    run.add_argument("--seed", type=seed, metavar="N", help="for random orders, which it needs one of")
    run.add_argument(
        "--guards",
        choices=("off", "fast", "full"),
        help="where stray writes are looked for: nowhere; in the innermost level after each kernel call and everywhere"
        " after each step (fast, the default); everywhere after each call (full)",
    )
    run.add_argument("--sanitize", action="store_true", help="build with address and undefined-behaviour sanitizers")
    run.add_argument("--skipgen", action="store_true", help="build and run what lies in the output folder")
    run.add_argument("--skipsim", action="store_true", help="generate and build, do not run")
    out = p.add_argument_group("output")
    out.add_argument("--dump", type=path, metavar="out.npz", help="write final weights by graph name, and `loss`")
    out.add_argument("--plotMemAlloc", action="store_true", help="write memory.html: buffers over time and addresses")
    out.add_argument(
        "--profileTiling",
        action="store_true",
        help="per step and tile: DMA wait, kernel, egress wait; also profile.json",
    )
    out.add_argument("-v", "--verbose", action="store_true", help="print the step table")


def _add_leftover(options: "argparse._ActionsContainer", default: str) -> None:
    text = f"passes behind the last full update have none, or one of their own (default: {default})"
    options.add_argument("--leftover", choices=LEFTOVERS, help=text)


def add_rate_options(options: "argparse._ActionsContainer", default: str) -> None:
    """Options of the rates of updates, which the program then takes when it runs."""
    from deployer.rates.course import LARGEST_RATE, WARM_UP_FIRST
    from deployer.rates.schedules import SCHEDULES

    known = []
    for schedule in SCHEDULES.values():
        settings = ", ".join(
            f"{s.name}: {s.text} ({'required' if s.default is None else f'default {s.default:g}'})"
            for s in schedule.settings
        )
        known.append(f"{schedule.name}, {schedule.text}" + (f" [{settings}]" if settings else ""))
    text = f"the rate of each update, as a share of the one that is given; {'; '.join(known)} ({default})"
    options.add_argument("--schedule", default="", metavar="NAME[:SETTING=X,...]", help=text.replace("%", "%%"))
    text = f"updates in which the rate rises in a line, from the share FIRST of it (default {WARM_UP_FIRST:.3g}) on,"
    text += " before the schedule begins (default: none)"
    options.add_argument("--warm-up", default="", metavar="UPDATES[:FIRST]", help=text)
    text = f"take rates that are negative or above {LARGEST_RATE:g}, which are refused otherwise"
    options.add_argument("--any-rate", action="store_true", help=text)


def _add_output(options: "argparse._ActionsContainer", text: str, required: bool = False) -> None:
    options.add_argument("-o", "--output", type=path, required=required, metavar="DIR", help=text)
    options.add_argument(
        "--force", action="store_true", help="overwrite files there that others wrote, or that were changed since"
    )


def _add_axes(options: "argparse._ActionsContainer") -> None:
    first = "length of the first axis of inputs, where the model leaves it open"
    options.add_argument("--batch", type=positive, metavar="N", help=first)
    named = "length of an axis that the model leaves open, by its name there; may be repeated"
    options.add_argument("--axis", type=axis, action="append", default=[], metavar="NAME=N", help=named)


def _add_train_graph(commands: "argparse._SubParsersAction[_Parser]") -> None:
    text = "make a training case (train and optimizer graph, inputs, expected results) from a forward ONNX model"
    p = commands.add_parser("train-graph", help=text, description=text)
    p.add_argument("model", type=path, metavar="model.onnx")
    _add_task(p)
    data = "arrays by input name, samples along the first axis (default: drawn from --seed)"
    p.add_argument("--data", type=path, metavar="data.npz", help=data)
    p.add_argument("--samples", type=positive, metavar="N", help="samples to draw (default 4), where --data gives none")
    p.add_argument("--n-accum", type=positive, default=1, metavar="N", help="passes per update (default 1)")
    p.add_argument("--n-steps", type=positive, metavar="N", help="forward passes in all (default: one per sample)")
    text = "what an update takes of the gradients of its passes; the mean is that of the loss over all labels that"
    text += " count, as if their samples were one batch (default sum)"
    p.add_argument("--accumulate", choices=ACCUMULATIONS, default=ACCUMULATIONS[0], help=text)
    text = "renew running statistics of norms in each pass, as PyTorch defines them"
    p.add_argument("--statistics", action="store_true", help=text)
    _add_leftover(p, "skip")
    p.add_argument("--seed", type=seed, metavar="N", help="of the samples that are drawn, and of dropout (default 0)")
    _add_output(p, "where the two folders of the case go", required=True)


def _add_task(p: _Parser) -> None:
    """What is learned and by which rule: options of everything that trains a forward model."""
    from_losses, from_optimizers = _Choices(_losses), _Choices(_optimizers)
    p.add_argument(
        "--loss",
        choices=from_losses,
        required=True,
        metavar="NAME",
        help="one of %(choices)s, where model is the model's output",
    )
    weights = "weights of the classes, in order (default: none)"
    p.add_argument("--class-weights", type=numbers, default=(), metavar="X,X,...", help=weights)
    text = "one of %(choices)s (default: the first)"
    p.add_argument("--optimizer", choices=from_optimizers, default="", metavar="NAME", help=text)
    p.add_argument("--lr", type=finite, default=0.01, help="learning rate (default 0.01)")
    group = "what is different for parameters in whose names REGEX is found: rate, settings by name, or frozen;"
    group += " may be repeated"
    p.add_argument("--group", action="append", default=[], metavar="REGEX:NAME=X,...", help=group)
    for kind, text in (("value", "each element of a gradient"), ("norm", "the norm of all gradients together")):
        p.add_argument(f"--clip-{kind}", type=finite, metavar="X", help=f"most that {text} is (default: any)")
    trainable = "initializers to train, found anywhere in the name (default: all that have a gradient)"
    p.add_argument("--trainable", default="", metavar="REGEX", help=trainable)
    _add_axes(p)
    off = "whether nodes that drop elements in training do so (default on)"
    p.add_argument("--dropout", choices=("on", "off"), default="on", help=off)
    p.late = _add_settings


def _losses() -> Collection[str]:
    from deployer.training.attached_loss import loss_choices

    return loss_choices()


def _optimizers() -> Collection[str]:
    from deployer.core.operator import optimizers

    return optimizers()


def _add_settings(p: _Parser) -> None:
    """An option for each setting that losses and optimizers declare."""
    from deployer.core.packages import PackageProblem
    from deployer.training.settings import declared_settings, shown

    add_rate_options(p, "default: a constant of the optimizer graph")
    options = p.add_argument_group("settings of losses and optimizers")
    for name, owners in declared_settings().items():
        if f"--{name}" in p._option_string_actions:
            raise PackageProblem(f"setting {name!r} of {owners[0][0]} is an option already", hint="another name")
        first, place = owners[0][1], SETTING + name
        text = "; ".join(dict.fromkeys(setting.text for _, setting in owners)).replace("%", "%%")
        if first.switch:
            text = f"{text} ({', '.join(owner for owner, _ in owners)})"
            options.add_argument(f"--{name}", action="store_const", const=1, dest=place, help=text)
            continue
        defaults = ", ".join(f"{owner} {shown(setting)}" for owner, setting in owners)
        kind, text = whole if first.whole else finite, f"{text}, in {first.range} (default: {defaults})"
        options.add_argument(f"--{name}", type=kind, metavar="N" if first.whole else "X", dest=place, help=text)


def given_settings(arguments: argparse.Namespace) -> dict[str, float]:
    """The settings on the command line, by name."""
    places = {k: v for k, v in vars(arguments).items() if k.startswith(SETTING) and v is not None}
    return {place.removeprefix(SETTING): number for place, number in places.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return ending.guarded(words, lambda: _command(words))


def _command(words: Sequence[str]) -> int:
    arguments = parsed(words)
    from deployer import commands
    from deployer.running.terminal import Terminal

    console = Terminal(width=None if sys.stdout.isatty() else PIPE_WIDTH)

    return commands.dispatch(arguments, console)


if __name__ == "__main__":
    sys.exit(main())
