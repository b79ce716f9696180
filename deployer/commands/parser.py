"""Argument parser with the options of every command."""

import argparse
from collections.abc import Callable, Collection, Iterator, Sequence

from deployer import __version__
from deployer.commands.config import OPTION, with_config
from deployer.commands.fit_options import TARGET_COLUMN, add_export_options, add_fit_options
from deployer.commands.hardware.options import add_fits_options, add_hal_test_options
from deployer.commands.lazy_parser import LazyParser
from deployer.commands.package_options import add_package_options
from deployer.commands.run_options import add_axes, add_leftover, add_output, add_rate_options, add_run_options
from deployer.commands.states.options import add_state_options
from deployer.commands.values import finite, numbers, path, positive, seed, whole
from deployer.lr_schedules.windows import ACCUMULATIONS

SETTING = "setting:"
"""Before the name of a setting, where the arguments have its number."""


class _Choices(Collection[str]):
    """Lazy choices of an option: the operators that declare them are loaded when the option or its help is read."""

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


def _shells() -> Collection[str]:
    """The shells that a script can be made for."""
    import shtab

    return shtab.SUPPORTED_SHELLS


PRINTERS = (
    (
        "schema",
        "print the JSON schema of a file that other commands write",
        "file",
        ("plan", "tiling", "report", "fit-report"),
    ),
    ("completion", "print a script that completes this command's words in a shell", "shell", _Choices(_shells)),
)
"""Commands that print one thing for other programs: name, what it does, their only argument and its choices."""


def parser(silent: Collection[str] = ()) -> argparse.ArgumentParser:
    """The command line; arguments named in `silent` have no default but None."""
    top = LazyParser(
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
    emit.add_argument("--plan", type=path, required=True, metavar="plan.json", help="a plan that a command wrote")
    add_output(emit, "where the C goes", required=True)
    _add_train_graph(commands)
    fit_text = "train a forward ONNX model over epochs, with validation, checkpoints and a report"
    fit = commands.add_parser("fit", help=fit_text, description=fit_text)
    fit.add_argument("model", type=path, metavar="model.onnx")
    _add_task(fit)
    add_fit_options(fit)
    add_output(fit, "where checkpoints, trained weights, history.csv and report.html go", required=True)
    add_export_options(commands)
    package_text = "make a training case a library of C with an interface, for firmware"
    package = commands.add_parser("package", help=package_text, description=package_text)
    add_package_options(package)
    add_output(package, "the library's folder", required=True)
    add_state_options(commands)
    fits_text = "say on which boards a model's training fits, what it takes there, and what would make it fit"
    fits = commands.add_parser("fits", help=fits_text, description=fits_text)
    _add_task(fits, " (default: the first that the model takes)")
    add_fits_options(fits)
    hal_text = "try each function of a target's HAL, and say what is wrong"
    add_hal_test_options(commands.add_parser("hal-test", help=hal_text, description=hal_text))
    calibrate_text = "measure kernels, dispatch and DMA on a target and write its cost model"
    calibrate = commands.add_parser("calibrate", help=calibrate_text, description=calibrate_text)
    text = "the target; its HAL has to run here"
    calibrate.add_argument("-p", "--platform", required=True, metavar="TARGET", help=text)
    calibrate.add_argument("--simulator", default="", metavar="TEXT", help="name and version of what it runs on")
    for name, text in (
        ("targets", "list the targets and their memories"),
        ("operators", "list the operators and what they can do"),
    ):
        commands.add_parser(name, help=text, description=text)
    text = "those, too, that no forward model has: steps of backward passes and updates, parts of others"
    commands.choices["operators"].add_argument("--all", action="store_true", help=text)
    for command in commands.choices.values():
        _add_common(command)
    for name, text, argument, choices in PRINTERS:
        p = commands.add_parser(name, help=text, description=text)
        p.add_argument(argument, choices=choices, metavar=argument, help="one of %(choices)s")
    for command in commands.choices.values():
        command.set_defaults(**dict.fromkeys(silent))
    return top


def commands_of(top: argparse.ArgumentParser) -> dict[str, LazyParser]:
    """The parser of each command."""
    return next(dict(a.choices) for a in top._actions if isinstance(a, argparse._SubParsersAction))


def complete_parser() -> argparse.ArgumentParser:
    """The command line with all options, also those that take long to know."""
    top = parser()
    for command in commands_of(top).values():
        command.complete()
    return top


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; `given` holds the names of those that are not left out, even where they equal the default."""
    top = parser()
    argv = with_config(argv, commands_of(top))
    arguments = top.parse_args(argv)
    bare = vars(parser(tuple(vars(arguments))).parse_args(argv))
    arguments.given = frozenset(name for name, value in bare.items() if value is not None)
    return arguments


def _add_common(p: LazyParser) -> None:
    """Options of every command that does something."""
    out = p.add_argument_group("common")
    text = "a TOML file with a table per command, whose keys are long options; those given here overrule it"
    out.add_argument(OPTION, type=path, metavar="FILE.toml", help=text)
    shown = out.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="print warnings and errors alone")
    shown.add_argument("--json", action="store_true", help="print lines of JSON, the last of which is the result")


def _add_train_graph(commands: "argparse._SubParsersAction[LazyParser]") -> None:
    text = "make a training case (train and optimizer graph, inputs, expected results) from a forward ONNX model"
    p = commands.add_parser("train-graph", help=text, description=text)
    p.add_argument("model", type=path, metavar="model.onnx")
    _add_task(p)
    data = "arrays by input name, samples along the first axis, or a table (.csv, .tsv) (default: drawn from --seed)"
    p.add_argument("--data", type=path, metavar="data.npz", help=data)
    p.add_argument("--target-column", default="", metavar="NAME", help=TARGET_COLUMN)
    p.add_argument("--samples", type=positive, metavar="N", help="samples to draw (default 4), where --data gives none")
    p.add_argument("--n-accum", type=positive, default=1, metavar="N", help="passes per update (default 1)")
    p.add_argument("--n-steps", type=positive, metavar="N", help="forward passes in all (default: one per sample)")
    text = "what an update takes of the gradients of its passes; the mean is that of the loss over all labels that"
    text += " count, as if their samples were one batch (default sum)"
    p.add_argument("--accumulate", choices=ACCUMULATIONS, default=ACCUMULATIONS[0], help=text)
    text = "renew running statistics of norms in each pass, as PyTorch defines them"
    p.add_argument("--statistics", action="store_true", help=text)
    add_leftover(p, "skip")
    p.add_argument(
        "--seed", type=seed, metavar="N", help="of the samples that are drawn, --init and dropout (default 0)"
    )
    add_output(p, "where the two folders of the case go", required=True)


def _add_task(p: LazyParser, loss: str = "") -> None:
    """Add the options that turn a forward model into a training task; `loss` is the text of the default, if any."""
    from_losses, from_optimizers = _Choices(_losses), _Choices(_optimizers)
    p.add_argument(
        "--loss",
        choices=from_losses,
        required=not loss,
        metavar="NAME",
        help=f"one of %(choices)s, where model is the model's output{loss}",
    )
    weights = "weights of the classes, in order (default: none)"
    p.add_argument("--class-weights", type=numbers, default=(), metavar="X,X,...", help=weights)
    text = "one of %(choices)s (default: the first)"
    p.add_argument("--optimizer", choices=from_optimizers, default="", metavar="NAME", help=text)
    p.add_argument("--lr", type=finite, default=0.01, help="learning rate (default 0.01)")
    group = "what is different for parameters in whose names REGEX is found: rate, settings by name, frozen, or trained"
    group += " for tensors that are none of a layer's;"
    group += " may be repeated"
    p.add_argument("--group", action="append", default=[], metavar="REGEX:NAME=X,...", help=group)
    for kind, text in (("value", "each element of a gradient"), ("norm", "the norm of all gradients together")):
        p.add_argument(f"--clip-{kind}", type=finite, metavar="X", help=f"most that {text} is (default: any)")
    trainable = "float tensors to train, found anywhere in the name (default: parameters of layers; an error lists what"
    trainable += " may be a parameter or not)"
    p.add_argument("--trainable", default="", metavar="REGEX", help=trainable)
    text = "draw initial weights from --seed, scaled by how wide each is; biases, scales and tables stay as they are:"
    text += " one of %(choices)s (default: those of the file)"
    p.add_argument("--init", choices=_Choices(_initial_rules), default="", metavar="RULE", help=text)
    text = "the module's parameters: exactly these are trained. An .npz or .safetensors file has their numbers, by"
    text += " which renamed, turned and repeated ones are found, and those that are not are an error; a text has names,"
    text += " one per line, and those that the file lacks get a warning"
    p.add_argument("--parameters", type=path, metavar="FILE", help=text)
    add_axes(p)
    off = "whether nodes that drop elements in training do so (default on)"
    p.add_argument("--dropout", choices=("on", "off"), default="on", help=off)
    p.late = _add_settings


def _losses() -> Collection[str]:
    from deployer.training.attached_loss import loss_choices

    return loss_choices()


def _optimizers() -> Collection[str]:
    from deployer.core.operator import optimizers

    return optimizers()


def _initial_rules() -> Collection[str]:
    from deployer.training.initial import RULES

    return RULES


def _add_settings(p: LazyParser) -> None:
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
