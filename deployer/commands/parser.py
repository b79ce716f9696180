"""Argument parser with the options of every command."""

import argparse
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from deployer import __version__
from deployer.commands.config import OPTION, with_config
from deployer.commands.fit_options import SCHEDULE_GROUP, TARGET_COLUMN, add_export_options, add_fit_options
from deployer.commands.fleet.options import add_fleet_options
from deployer.commands.hardware.options import add_fits_options, add_hal_test_options, add_rack_options
from deployer.commands.lazy_parser import LazyParser, inner_parsers
from deployer.commands.lm.options import add_lm_options
from deployer.commands.package_options import add_package_options
from deployer.commands.quantization.options import add_quantize_options
from deployer.commands.run_options import (
    add_axes,
    add_output,
    add_partial_accumulation,
    add_rate_options,
    add_run_options,
)
from deployer.commands.states.options import add_state_options
from deployer.commands.sweep.options import add_sweep_options
from deployer.commands.values import finite, numbers, path, positive, seed, whole
from deployer.lr_schedules.windows import ACCUMULATIONS

if TYPE_CHECKING:
    from deployer.core.traits.training import Hyperparameter

SETTING = "setting:"
"""Prefix of a hyperparameter's name in the parsed arguments."""


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
        "print the JSON schema of an output file",
        "file",
        ("plan", "tiling", "report", "fit-report"),
    ),
    ("completion", "print a shell completion script", "shell", _Choices(_shells)),
)
"""Commands that print text for other programs: name, help, only argument and its choices."""


def parser(silent: Collection[str] = ()) -> argparse.ArgumentParser:
    """The command line; arguments named in `silent` have no default but None."""
    top = LazyParser(
        prog="deployer",
        description="Compile neural-network training to C for microcontrollers, run it, and check every weight.",
        epilog="exit codes: 0 success; 1 a check failed; 2 invalid input, option or environment; 70"
        " internal compiler error, with a report; 128+N terminated by signal N",
    )
    top.add_argument("--version", action="version", version=f"deployer {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in (
        ("train", "compile and run a training case, and compare every loss and final weight with the reference"),
        ("optimizer", "compile and run only the optimizer graph of a training case"),
        ("infer", "compile and run an inference case, and compare its outputs with the reference"),
    ):
        add_run_options(commands.add_parser(name, help=text, description=text))
    compile_text = "compile a case to C without running it"
    compiled = commands.add_parser("compile", help=compile_text, description=compile_text)
    add_run_options(compiled)
    compiled.add_argument(
        "--from",
        dest="from_file",
        type=path,
        metavar="tiling.json",
        help="use this tiling, as generated or edited, instead of solving for one",
    )
    emit_text = "generate the C code of an existing plan.json"
    emit = commands.add_parser("emit", help=emit_text, description=emit_text)
    emit.add_argument("--plan", type=path, required=True, metavar="plan.json", help="plan written by another command")
    add_output(emit, "output folder of the C code", required=True)
    _add_train_graph(commands)
    fit_text = "train a forward ONNX model for several epochs, with validation, checkpoints and a report"
    fit = commands.add_parser("fit", help=fit_text, description=fit_text)
    fit.add_argument("model", type=path, metavar="model.onnx", help="forward model")
    _add_task(fit)
    add_fit_options(fit)
    add_output(fit, "output folder of checkpoints, trained weights, history.csv and report.html", required=True)
    add_export_options(commands)
    quantize_text = "write an ONNX model whose frozen part, or all of it, has weights and values of 8 bits"
    quantize = commands.add_parser("quantize", help=quantize_text, description=quantize_text)
    add_quantize_options(quantize, _Choices(_named_losses))
    sweep_text = "run another command with varied options, several runs at a time, and compare what comes of them"
    add_sweep_options(commands.add_parser("sweep", help=sweep_text, description=sweep_text))
    fleet_text = "train a forward ONNX model on many simulated devices, each with its own samples (federated training)"
    fleet = commands.add_parser("fleet", help=fleet_text, description=fleet_text)
    fleet.add_argument("model", type=path, metavar="model.onnx", help="forward model")
    _add_task(fleet)
    add_fleet_options(fleet)
    package_text = "generate a C library for firmware: it trains and predicts, or of a model's file only predicts"
    package = commands.add_parser("package", help=package_text, description=package_text)
    add_package_options(package)
    add_output(package, "output folder of the library", required=True)
    add_state_options(commands)
    fits_text = "report which boards can train a model, its memory and instructions, and remedies if it does not fit"
    fits = commands.add_parser("fits", help=fits_text, description=fits_text)
    _add_task(fits, " (default: the first that accepts the model's output)")
    add_fits_options(fits)
    rack_text = "train many simulated devices on one machine, such as a GPU, each with the packaged library"
    rack = commands.add_parser("rack", help=rack_text, description=rack_text)
    add_rack_options(rack)
    add_output(rack, "output folder of the library, losses, digests and weights", required=True)
    hal_text = "test every function of a target's HAL"
    add_hal_test_options(commands.add_parser("hal-test", help=hal_text, description=hal_text))
    calibrate_text = "measure kernels, dispatch and DMA of a target, and write its cost model"
    calibrate = commands.add_parser("calibrate", help=calibrate_text, description=calibrate_text)
    text = "target to measure; its HAL must run on this machine"
    calibrate.add_argument("-p", "--platform", required=True, metavar="TARGET", help=text)
    calibrate.add_argument(
        "--simulator",
        default="",
        metavar="TEXT",
        help="name and version of the simulator, for the record (default: none)",
    )
    for name, text in (
        ("targets", "list the targets and their memory levels"),
        ("operators", "list the supported operators, their ONNX versions and gradients"),
    ):
        commands.add_parser(name, help=text, description=text)
    text = "include internal operators: backward passes, updates and fused operators"
    commands.choices["operators"].add_argument("--all", action="store_true", help=text)
    add_lm_options(commands, add_update_options)
    for command in commands_of(top).values():
        _add_common(command)
    for name, text, argument, choices in PRINTERS:
        p = commands.add_parser(name, help=text, description=text)
        p.add_argument(argument, choices=choices, metavar=argument, help="one of %(choices)s")
    for command in commands_of(top).values():
        command.set_defaults(**dict.fromkeys(silent))
    return top


def commands_of(top: argparse.ArgumentParser) -> dict[str, LazyParser]:
    """The parser of each command; one that is an action of another has the names of both."""
    found: dict[str, LazyParser] = {}
    for name, command in inner_parsers(top).items():
        actions = inner_parsers(command)
        found |= {f"{name} {action}": parser for action, parser in actions.items()} or {name: command}
    return found


def complete_parser() -> argparse.ArgumentParser:
    """The command line with all options, also those that take long to know."""
    top = parser()
    for command in commands_of(top).values():
        command.complete()
    return top


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; `given` holds the names of those that are not left out, even where they equal the default.

    `command_line` is the text of all words, as a shell reads it.
    """
    top = parser()
    line = shlex.join(["deployer", *argv])
    argv = with_config(argv, commands_of(top))
    arguments = top.parse_args(argv)
    bare = vars(parser(tuple(vars(arguments))).parse_args(argv))
    arguments.given = frozenset(name for name, value in bare.items() if value is not None)
    arguments.command_line = line
    return arguments


def _add_common(p: LazyParser) -> None:
    """Options of every command that does something."""
    out = p.add_argument_group("common")
    text = "TOML file with a table per command, whose keys are long options; the command line takes precedence"
    out.add_argument(OPTION, type=path, metavar="FILE.toml", help=text)
    shown = out.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="print only warnings and errors")
    shown.add_argument("--json", action="store_true", help="print JSON lines; the last one is the result")


def _add_train_graph(commands: "argparse._SubParsersAction[LazyParser]") -> None:
    text = "generate a training case (training and optimizer graph, inputs, expected results) from a forward ONNX model"
    p = commands.add_parser("train-graph", help=text, description=text)
    p.add_argument("model", type=path, metavar="model.onnx", help="forward model")
    _add_task(p)
    data = "arrays by input name, samples along the first axis; or a table (.csv, .tsv) (default: random, from --seed)"
    p.add_argument("--data", type=path, metavar="data.npz", help=data)
    p.add_argument("--target-column", default="", metavar="NAME", help=TARGET_COLUMN)
    p.add_argument("--samples", type=positive, metavar="N", help="number of random samples without --data (default 4)")
    p.add_argument(
        "--accumulate-grad-batches",
        "--n-accum",
        type=positive,
        default=1,
        metavar="N",
        help="gradient accumulation: passes per update (default 1)",
    )
    p.add_argument(
        "--n-steps", type=positive, metavar="N", help="total number of forward passes (default: one per sample)"
    )
    text = (
        "reduction of accumulated gradients; mean is over all labels that are not ignored, as if the samples were one"
    )
    text += " batch (default sum)"
    p.add_argument("--accumulate", choices=ACCUMULATIONS, default=ACCUMULATIONS[0], help=text)
    text = "update the running statistics of normalization layers in each pass, as PyTorch does"
    p.add_argument("--running-stats", action="store_true", help=text)
    add_partial_accumulation(p, "skip")
    p.add_argument("--seed", type=seed, metavar="N", help="random seed of samples, --init and dropout (default 0)")
    add_output(p, "output folder of the case", required=True)


def _add_task(p: LazyParser, loss: str = "") -> None:
    """Add the options that turn a forward model into a training task; `loss` is the text of the default, if any."""
    p.add_argument(
        "--loss",
        choices=_Choices(_losses),
        required=not loss,
        metavar="NAME",
        help=f"one of %(choices)s; model: the model's output is the loss{loss}",
    )
    weights = "weight of each class, in order (default: none)"
    p.add_argument("--class-weights", type=numbers, default=(), metavar="X,X,...", help=weights)
    add_update_options(p)
    trainable = (
        "train the float tensors whose names REGEX matches (default: parameters of layers; an error lists ambiguous"
    )
    trainable += " tensors)"
    p.add_argument("--trainable", default="", metavar="REGEX", help=trainable)
    text = (
        "initialize weights at random from --seed, scaled by fan-in or fan-out: one of %(choices)s; biases, scales and"
    )
    text += " embedding tables keep their values (default: weights of the file)"
    p.add_argument("--init", choices=_Choices(_initial_rules), default="", metavar="RULE", help=text)
    text = "parameters of the original module: train exactly these. An .npz or .safetensors file with their values also"
    text += (
        " finds renamed, transposed and duplicated ones, and an unmatched one is an error; a text file has a name per"
    )
    text += " line, and an unmatched one is a warning"
    p.add_argument("--parameters", type=path, metavar="FILE", help=text)
    add_axes(p)
    off = "dropout during training (default on)"
    p.add_argument("--dropout", choices=("on", "off"), default="on", help=off)


def add_update_options(p: LazyParser, optimizer: str = "", rate: float = 0.01) -> None:
    """Add the options of updates: optimizer, learning rate, groups of parameters, limits, hyperparameters."""
    text = f"one of %(choices)s (default {optimizer})" if optimizer else "one of %(choices)s; the first is the default"
    p.add_argument("--optimizer", choices=_Choices(_optimizers), default=optimizer, metavar="NAME", help=text)
    p.add_argument("--lr", type=finite, default=rate, help=f"learning rate (default {rate:g})")
    group = "parameter group: overrides for the parameters whose names REGEX matches: lr=X, hyperparameters by name,"
    group += " frozen, or trained (for a tensor that is not a parameter of a layer); may be repeated"
    p.add_argument("--param-group", action="append", default=[], metavar="REGEX:NAME=X,...", help=group)
    for kind, text in (("value", "each gradient element to [-X, X]"), ("norm", "the global gradient norm to X")):
        p.add_argument(f"--max-grad-{kind}", type=finite, metavar="X", help=f"clip {text} (default: off)")
    p.late = _add_settings


def _losses() -> Collection[str]:
    from deployer.training.attached_loss import loss_choices

    return loss_choices()


def _named_losses() -> Collection[str]:
    from deployer.core.operator import losses

    return losses()


def _optimizers() -> Collection[str]:
    from deployer.core.operator import optimizers

    return optimizers()


def _initial_rules() -> Collection[str]:
    from deployer.training.initial import RULES

    return RULES


def _add_settings(p: LazyParser) -> None:
    """Add an option for each hyperparameter that losses and optimizers declare."""
    from deployer.core.packages import PackageProblem
    from deployer.training.settings import PAIRS, declared_settings, shown

    groups = [group for group in p._action_groups if str(group.title).startswith(SCHEDULE_GROUP)]
    rates = groups[0] if groups else p.add_argument_group(SCHEDULE_GROUP)
    add_rate_options(rates, "default: constant learning rate")
    options = p.add_argument_group("hyperparameters of losses and optimizers")
    for name, owners in declared_settings().items():
        if f"--{name}" in p._option_string_actions:
            raise PackageProblem(f"setting {name!r} of {owners[0][0]} is an option already", hint="another name")
        first, place = owners[0][1], SETTING + name
        text = _hyperparameter_text(owners).replace("%", "%%")
        if first.switch:
            text = f"{text} ({', '.join(owner for owner, _ in owners)})"
            options.add_argument(f"--{name}", action="store_const", const=1, dest=place, help=text)
            continue
        defaults = ", ".join(f"{owner} {shown(setting)}" for owner, setting in owners)
        kind, text = whole if first.whole else finite, f"{text}, in {first.range} (default: {defaults})"
        options.add_argument(f"--{name}", type=kind, metavar="N" if first.whole else "X", dest=place, help=text)
    for name, both in PAIRS.items():
        if {f"--{each}" for each in both} <= p._option_string_actions.keys():
            text = f"{' and '.join(f'--{each}' for each in both)} in one, as in PyTorch"
            options.add_argument(f"--{name}", type=numbers, action=_Pair, const=both, metavar="X,Y", help=text)


class _Pair(argparse.Action):
    """Stores two numbers as the settings that `const` names."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: "str | Sequence[float] | None",
        option_string: str | None = None,
    ) -> None:
        """Store them; ArgumentError where there are not two."""
        if len(values or ()) != len(self.const):
            raise argparse.ArgumentError(self, "two numbers, such as 0.9,0.999")
        for name, value in zip(self.const, values or (), strict=True):
            setattr(namespace, SETTING + name, value)


def _hyperparameter_text(owners: Sequence[tuple[str, "Hyperparameter"]]) -> str:
    """Join the texts of the hyperparameter's owners, with their names where the texts differ."""
    by_text: dict[str, list[str]] = {}
    for owner, setting in owners:
        by_text.setdefault(setting.text, []).append(owner)
    if len(by_text) == 1:
        return owners[0][1].text
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in by_text.items())


def given_settings(arguments: argparse.Namespace) -> dict[str, float]:
    """The settings on the command line, by name."""
    places = {k: v for k, v in vars(arguments).items() if k.startswith(SETTING) and v is not None}
    return {place.removeprefix(SETTING): number for place, number in places.items()}
