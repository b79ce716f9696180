"""The `deployer` command: options to the pipeline's arguments, errors to exit codes."""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from deployer import __version__
from deployer.errors import DeployerError, FileProblem

PIPE_WIDTH = 140
"""Columns of tables where no terminal says how many it has."""
BUFFERINGS = ("auto", "single", "double", "training_double", "double_l3")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="deployer",
        description="Compile neural-network training graphs to C for microcontrollers, run it, check every weight.",
        epilog="exit codes: 0 well, 1 values beyond the tolerance, 2 bad input or request, 70 a fault of the compiler",
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
        type=Path,
        metavar="tiling.json",
        help="start from this tiling, edited or not",
    )
    emit_text = "print the C of a plan.json again"
    emit = commands.add_parser("emit", help=emit_text, description=emit_text)
    emit.add_argument("--plan", type=Path, required=True, metavar="plan.json")
    emit.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    _add_train_graph(commands)
    calibrate_text = "measure kernels, dispatch and DMA on a target and write its cost model"
    calibrate = commands.add_parser("calibrate", help=calibrate_text, description=calibrate_text)
    calibrate.add_argument("-p", "--platform", required=True, metavar="TARGET")
    calibrate.add_argument("--simulator", default="", metavar="TEXT", help="name and version of what it runs on")
    commands.add_parser("targets", help="list the targets and their memories")
    commands.add_parser("operators", help="list the operators and what they can do")
    return top


def add_run_options(p: argparse.ArgumentParser) -> None:
    """Options of everything that compiles and runs a case."""
    case = p.add_argument_group("case")
    case.add_argument("-t", "--test", type=Path, required=True, metavar="DIR", help="folder of the test case")
    case.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="where generated files go (default out/<case>/<platform>)",
    )
    case.add_argument("--n-steps", type=_positive, metavar="N", help="forward passes in all (default: as recorded)")
    case.add_argument("--n-accum", type=_positive, metavar="N", help="passes per update (default: as recorded)")
    case.add_argument("--data-inputs", type=_positive, metavar="N", help="leading graph inputs that change per sample")
    case.add_argument("--learning-rate", type=_finite, metavar="LR", help="replaces the optimizer's own")
    case.add_argument(
        "--tolerance",
        type=_tolerance,
        default=1e-5,
        metavar="T",
        help="largest absolute difference (default 1e-5); an output of an inference case may differ by 1e-6 of its"
        " tensor's largest expected magnitude more",
    )
    machine = p.add_argument_group("machine")
    machine.add_argument(
        "-p", "--platform", default="host", metavar="TARGET", help="see `deployer targets` (default host)"
    )
    machine.add_argument(
        "--l1", type=_positive, metavar="BYTES", help="budget of L1: slots, resident tensors, argument tables"
    )
    machine.add_argument("--l2", type=_positive, metavar="BYTES", help="budget of L2")
    machine.add_argument(
        "--defaultMemLevel",
        choices=("L2", "L3"),
        default="L2",
        help="outermost level tensors may live in; with L3, what does not fit L2 is spilled there",
    )
    machine.add_argument("--cores", type=_positive, metavar="N", help="cores that share a kernel")
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
    run = p.add_argument_group("run")
    run.add_argument("--dma-order", choices=("early", "late", "random"), help="when simulated transfers happen (late)")
    run.add_argument(
        "--core-order", choices=("forward", "reverse", "random"), help="order of simulated cores (forward)"
    )
    run.add_argument("--seed", type=int, metavar="N", help="for random orders")
    run.add_argument(
        "--guards",
        choices=("off", "fast", "full"),
        help="where stray writes are looked for: nowhere; in L1 after each kernel call and everywhere after each step"
        " (fast, the default); everywhere after each call (full)",
    )
    run.add_argument("--sanitize", action="store_true", help="build with address and undefined-behaviour sanitizers")
    run.add_argument("--skipgen", action="store_true", help="build and run what lies in the output folder")
    run.add_argument("--skipsim", action="store_true", help="generate and build, do not run")
    out = p.add_argument_group("output")
    out.add_argument("--dump", type=Path, metavar="out.npz", help="write final weights by graph name, and `loss`")
    out.add_argument("--plotMemAlloc", action="store_true", help="write memory.html: buffers over time and addresses")
    out.add_argument(
        "--profileTiling",
        action="store_true",
        help="per step and tile: DMA wait, kernel, egress wait; also profile.json",
    )
    out.add_argument("-v", "--verbose", action="store_true", help="print the step table")


def _add_train_graph(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "make a training case (train and optimizer graph, inputs, expected results) from a forward ONNX model"
    p = commands.add_parser("train-graph", help=text, description=text)
    p.add_argument("model", type=Path, metavar="model.onnx")
    p.add_argument("--loss", choices=("cross_entropy", "mse"), required=True)
    p.add_argument("--optimizer", choices=("sgd",), default="sgd")
    p.add_argument("--lr", type=_finite, default=0.01, help="learning rate (default 0.01)")
    trainable = "initializers to train, found anywhere in the name (default: all that have a gradient)"
    p.add_argument("--trainable", default="", metavar="REGEX", help=trainable)
    data = "arrays by input name, samples along the first axis (default: drawn from --seed)"
    p.add_argument("--data", type=Path, metavar="data.npz", help=data)
    p.add_argument("--samples", type=_positive, default=4, metavar="N", help="samples to draw (default 4)")
    p.add_argument("--n-accum", type=_positive, default=1, metavar="N", help="passes per update (default 1)")
    p.add_argument("--n-steps", type=_positive, metavar="N", help="forward passes in all (default: one per sample)")
    p.add_argument("--seed", type=int, default=0, metavar="N", help="of the samples")
    p.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _tolerance(text: str) -> float:
    value = _finite(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    arguments = parser().parse_args(argv)
    from deployer import commands

    try:
        return commands.dispatch(arguments, console)
    except DeployerError as error:
        Console(stderr=True, highlight=False).print(str(error), markup=False, soft_wrap=True)
        return error.exit_code
    except OSError as error:
        if error.filename is None:
            raise
        problem = FileProblem(f"{error.filename}: {error.strerror}", hint="correct the path or its permissions")
        Console(stderr=True, highlight=False).print(str(problem), markup=False, soft_wrap=True)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
