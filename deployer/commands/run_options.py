"""Options of everything that compiles and runs a case, and those that other commands share with them."""

import argparse

from deployer.commands.lazy_parser import LazyParser
from deployer.commands.values import UNITS, axis, budget, finite, passes, path, positive, seed, size, tolerance
from deployer.core.level import ALIASES
from deployer.lr_schedules.windows import PARTIAL_ACCUMULATION
from deployer.verify.checked import FIRST_CHECKS, STATES_BYTES
from deployer.verify.tolerances import TOLERANCES

BUFFERINGS = ("auto", "single", "double", "training_double", "double_l3")
EVERY_REWRITE = ""
"""Value of --no-fusion without a name: all fusions."""


def add_canonical_batch(p: "argparse._ActionsContainer") -> None:
    """Add the option for gradients that do not depend on how an update is split into passes."""
    text = "add gradients up sample by sample, so that results are bit-identical however an update is split into passes"
    p.add_argument("--canonical-batch", action="store_true", help=text)


def add_latent_replay(p: "argparse._ActionsContainer") -> None:
    """Add the options of a ring of latents in a library."""
    text = (
        "of a case whose first layers are frozen: train the others on their latents, with a ring of so many records of"
        " latents and labels in the library's struct"
    )
    p.add_argument("--latent-replay", type=positive, metavar="SLOTS", help=text)
    text = "what a full ring replaces: a record of the largest classes (balanced, default), or any (reservoir)"
    p.add_argument("--replay-policy", choices=("balanced", "reservoir"), default="", help=text)
    p.add_argument("--replay-seed", type=seed, metavar="N", help="seed of the ring's draws (default: 0)")


def add_run_options(p: LazyParser) -> None:
    """Options of everything that compiles and runs a case."""
    case = p.add_argument_group("case")
    case.add_argument(
        "-t",
        "--test",
        type=path,
        required=True,
        metavar="DIR",
        help="folder of the test case; with infer and compile also a model.onnx, which gets random inputs",
    )
    add_output(case, "output folder of generated files (default out/<case>/<platform>)")
    case.add_argument(
        "--n-steps", type=positive, metavar="N", help="total number of forward passes (default: as recorded)"
    )
    case.add_argument(
        "--accumulate-grad-batches",
        "--n-accum",
        type=positive,
        metavar="N",
        help="gradient accumulation: passes per update (default: as recorded)",
    )
    add_partial_accumulation(case, "as recorded, or skip")
    add_axes(case)
    case.add_argument(
        "--data-inputs",
        type=positive,
        metavar="N",
        help="number of leading graph inputs with per-sample data (default: as recorded, or derived from the files)",
    )
    case.add_argument("--lr", "--learning-rate", type=finite, metavar="LR", help="learning rate (default: as recorded)")
    p.late = lambda _: add_rate_options(case, "default: as recorded in the case")
    case.add_argument(
        "--tolerance",
        type=tolerance,
        default=TOLERANCES.weight,
        metavar="T",
        help=f"maximum absolute error (default {TOLERANCES.weight:g}), below the largest compared value. For outputs of"
        f" inference cases, {TOLERANCES.relative:g} of the tensor's largest expected magnitude is added. The norms of"
        " weight updates are checked separately",
    )
    case.add_argument(
        "--check-passes",
        type=passes,
        metavar="N|all|none",
        help="training passes to recompute in float64 from the program's own state (default: all of up to"
        f" {FIRST_CHECKS} passes, else a fixed sample of as many; fewer if states exceed {STATES_BYTES >> 20} MiB)",
    )
    case.add_argument("--strict", action="store_true", help="exit with code 1 also for the verdict `explained`")
    machine = p.add_argument_group("machine")
    machine.add_argument(
        "-p",
        "--platform",
        default="host",
        metavar="TARGET",
        help="target to compile for; `deployer targets` lists them (default host)",
    )
    units = ", ".join(f"{unit} {count}" for unit, count in UNITS.items() if unit).replace(" ", " is ", 1)
    machine.add_argument(
        "--budget",
        type=budget,
        action="append",
        default=[],
        metavar="LEVEL=BYTES",
        help="memory budget of a level for slots, tensors and argument tables; may be repeated (default: the target's"
        f" budgets). BYTES may have a unit: {units}, with or without a B",
    )
    add_budget_aliases(machine)
    machine.add_argument(
        "--defaultMemLevel",
        metavar="LEVEL",
        help="outermost memory level that a plan may use, for tensors that do not fit the inner levels (default: the"
        " second innermost level)",
    )
    machine.add_argument(
        "--cores", type=positive, metavar="N", help="number of cores per kernel (default: the target's)"
    )
    tiling = p.add_argument_group("buffering")
    mode = tiling.add_mutually_exclusive_group()
    mode.add_argument(
        "--buffering",
        choices=BUFFERINGS,
        default="auto",
        help="buffering of tiles; auto: chosen per step by the cost model (default auto)",
    )
    mode.add_argument(
        "--doublebuffer", action="store_const", const="double", dest="buffering", help="double-buffer all operands"
    )
    mode.add_argument(
        "--singlebuffer", action="store_const", const="single", dest="buffering", help="single-buffer all operands"
    )
    tiling.add_argument(
        "--opt-out",
        action="append",
        default=[],
        metavar="NAME",
        help="operator or node to keep single-buffered under training_double; may be repeated",
    )
    tiling.add_argument(
        "--no-fusion",
        action="append",
        nargs="?",
        const=EVERY_REWRITE,
        default=[],
        metavar="NAME",
        help="disable the rewrite NAME, or without NAME all rewrites and fused launches; may be repeated. Rewrites save"
        " memory or time and do not change results",
    )
    tiling.add_argument(
        "--no-ahead",
        action="store_true",
        help="disable prefetches and deferred write-backs across steps: every transfer starts and ends in its own step",
    )
    tiling.add_argument(
        "--fused",
        action="store_true",
        dest="fuse_update",
        help="fuse the optimizer update into the training pass; needs one pass per update. train_cycles then includes"
        " the update, and opt_cycles is 0",
    )
    add_canonical_batch(tiling)
    tiling.add_argument(
        "--jobs",
        type=positive,
        default=0,
        metavar="N",
        help="number of tilings solved in parallel (default: number of CPU cores); does not change the result",
    )
    run = p.add_argument_group("run")
    run.add_argument(
        "--dma-order",
        choices=("early", "late", "random"),
        help="time at which simulated transfers complete (default early)",
    )
    run.add_argument(
        "--core-order",
        choices=("forward", "reverse", "random"),
        help="execution order of simulated cores (default forward)",
    )
    run.add_argument(
        "--seed", type=seed, metavar="N", help="random seed of --dma-order random and --core-order random (default 1)"
    )
    run.add_argument(
        "--guards",
        choices=("off", "fast", "full"),
        help="checks for out-of-bounds writes: off; fast: the innermost level after each kernel call, all levels after"
        " each step; full: all levels after each call (default fast)",
    )
    run.add_argument("--sanitize", action="store_true", help="build with address and undefined-behavior sanitizers")
    run.add_argument(
        "--skipgen", action="store_true", help="skip code generation; build and run the code in the output folder"
    )
    run.add_argument("--skipsim", action="store_true", help="generate and build without running")
    out = p.add_argument_group("output")
    out.add_argument(
        "--dump",
        type=path,
        metavar="out.npz",
        help="write the final weights by graph name, and `loss`, to an npz archive",
    )
    out.add_argument("--plotMemAlloc", action="store_true", help="plot buffers over time and addresses in memory.html")
    out.add_argument(
        "--profileTiling",
        action="store_true",
        help="profile DMA wait, kernel and write-back wait per step and tile; also writes profile.json",
    )
    out.add_argument(
        "-v", "--verbose", action="store_true", help="print tile, DMA bytes and predicted cycles of each step"
    )


def add_partial_accumulation(options: "argparse._ActionsContainer", default: str) -> None:
    """Add `--partial-accumulation`: skip or apply an incomplete accumulation window at the end of the run."""
    text = f"incomplete accumulation window at the end of the run: skip it or apply it (default: {default})"
    options.add_argument("--partial-accumulation", choices=PARTIAL_ACCUMULATION, help=text)


def add_rate_options(options: "argparse._ActionsContainer", default: str) -> None:
    """Add options of the learning-rate schedule, which the program reads at run time."""
    from deployer.lr_schedules.lr_schedule import LARGEST_RATE, SCHEDULES, WARM_UP_FIRST

    known = []
    for schedule in SCHEDULES.values():
        settings = ", ".join(
            f"{s.name}: {s.text} ({'required' if s.default is None else f'default {s.default:g}'})"
            for s in schedule.settings
        )
        known.append(f"{schedule.name}: {schedule.text}" + (f" [{settings}]" if settings else ""))
    text = f"learning-rate schedule, relative to the learning rate. {'; '.join(known)} ({default})"
    options.add_argument("--lr-scheduler", default="", metavar="NAME[:SETTING=X,...]", help=text.replace("%", "%%"))
    text = (
        f"linear warm-up over UPDATES updates from FIRST times the learning rate (default {WARM_UP_FIRST:.3g}), before"
    )
    text += " the schedule (default: none)"
    options.add_argument("--warmup-steps", default="", metavar="UPDATES[:FIRST]", help=text)
    text = f"allow learning rates that are negative or above {LARGEST_RATE:g}"
    options.add_argument("--any-rate", action="store_true", help=text)


def add_budget_aliases(machine: "argparse._ActionsContainer") -> None:
    """Add short forms of `--budget` for the inner levels, which errors propose."""
    for alias, place in zip(ALIASES, ("the innermost level", "the second innermost level"), strict=True):
        text = f"memory budget of {place} (default: the target's)"
        machine.add_argument(f"--{alias}", type=size, metavar="BYTES", help=text)


def add_output(options: "argparse._ActionsContainer", text: str, required: bool = False) -> None:
    """Add `--output`, and `--force` to overwrite files that others wrote or changed."""
    options.add_argument("-o", "--output", type=path, required=required, metavar="DIR", help=text)
    options.add_argument(
        "--force",
        action="store_true",
        help="overwrite files in the output folder that other programs wrote, or that were modified since",
    )


def add_form(options: "argparse._ActionsContainer") -> None:
    """Add options by which a library needs less memory."""
    text = "give inputs that the model quantizes at once as numbers of 8 bits, a fourth of the memory of floats; the"
    text += " library's header says what they stand for (default: as in the model)"
    options.add_argument("--inputs", choices=("int8", "uint8"), default="", help=text)
    text = "with one pass per update: refuse predictions between a pass and its update, and give them the memory of the"
    text += " gradients (default: a prediction may come at any time)"
    options.add_argument("--predict-after-update", action="store_true", help=text)


def add_axes(options: "argparse._ActionsContainer") -> None:
    """Add options for the lengths of symbolic axes."""
    first = "batch size; required if the first axis of the inputs is symbolic"
    options.add_argument("--batch-size", type=positive, metavar="N", help=first)
    named = "length of a symbolic axis of the model, by name; required for each other symbolic axis; may be repeated"
    options.add_argument("--axis", type=axis, action="append", default=[], metavar="NAME=N", help=named)
