"""Options of everything that compiles and runs a case, and those that other commands share with them."""

import argparse

from deployer.commands.lazy_parser import LazyParser
from deployer.commands.values import UNITS, axis, budget, finite, passes, path, positive, seed, size, tolerance
from deployer.core.level import ALIASES
from deployer.lr_schedules.windows import LEFTOVERS
from deployer.verify.checked import FIRST_CHECKS, STATES_BYTES
from deployer.verify.tolerances import TOLERANCES

BUFFERINGS = ("auto", "single", "double", "training_double", "double_l3")
EVERY_REWRITE = ""
"""What stands for all names where --no-fusion has none."""


def add_run_options(p: LazyParser) -> None:
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
    add_output(case, "where generated files go (default out/<case>/<platform>)")
    case.add_argument("--n-steps", type=positive, metavar="N", help="forward passes in all (default: as recorded)")
    case.add_argument("--n-accum", type=positive, metavar="N", help="passes per update (default: as recorded)")
    add_leftover(case, "as recorded, or skip")
    add_axes(case)
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
        "--no-fusion",
        action="append",
        nargs="?",
        const=EVERY_REWRITE,
        default=[],
        metavar="NAME",
        help="leave out rewrites that save memory or time and change no bit: that of this name, or without a name all;"
        " may be repeated",
    )
    tiling.add_argument(
        "--no-ahead",
        action="store_true",
        help="keep transfers within their steps: first ones start in no earlier step, last ones end in no later one",
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


def add_leftover(options: "argparse._ActionsContainer", default: str) -> None:
    """Add `--leftover`: skip or apply an incomplete accumulation window at the end of the run."""
    text = f"passes behind the last full update have none, or one of their own (default: {default})"
    options.add_argument("--leftover", choices=LEFTOVERS, help=text)


def add_rate_options(options: "argparse._ActionsContainer", default: str) -> None:
    """Options of the rates of updates, which the program then takes when it runs."""
    from deployer.lr_schedules.lr_schedule import LARGEST_RATE, WARM_UP_FIRST
    from deployer.lr_schedules.schedules import SCHEDULES

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


def add_output(options: "argparse._ActionsContainer", text: str, required: bool = False) -> None:
    """Add `--output`, and `--force` to overwrite files that others wrote or changed."""
    options.add_argument("-o", "--output", type=path, required=required, metavar="DIR", help=text)
    options.add_argument(
        "--force", action="store_true", help="overwrite files there that others wrote, or that were changed since"
    )


def add_axes(options: "argparse._ActionsContainer") -> None:
    """Lengths of axes that a model leaves open."""
    first = "length of the first axis of inputs, where the model leaves it open"
    options.add_argument("--batch", type=positive, metavar="N", help=first)
    named = "length of an axis that the model leaves open, by its name there; may be repeated"
    options.add_argument("--axis", type=axis, action="append", default=[], metavar="NAME=N", help=named)
