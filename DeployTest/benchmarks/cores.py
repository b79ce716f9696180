"""One digest of losses and final state on all machines, and what a pass takes on each: writes cores.json and a table.

Run as `python -m DeployTest.benchmarks.cores`; rows that are there are kept unless `--again`.
The table is in docs/boards.md. A run is one update with its passes. The digest is of the bits of its losses and of the
state's own digest, by the library on this machine and on the cores of targets/cores, and by the usual program on
targets with several memories. Siracusa needs GVSOC_INSTALL_DIR; machines that are not there are left out, and named.
"""

import argparse
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.core.errors import ToolMissing
from deployer.core.plan import Options
from deployer.core.target import load
from deployer.firmware.library import library_files
from deployer.firmware.sources import library_rules
from deployer.firmware.state import fnv1a
from deployer.pipeline import Case
from deployer.running import build
from deployer.sizing.boards import core_of
from deployer.sizing.emulated import run_example
from deployer.sizing.needs import NAME, is_constant, material
from deployer.sizing.objects import Files, compile_library
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.building.cases import SHARED, case_dir

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "boards.md"
MARKS = ("<!-- digest table -->", "<!-- end of digest table -->")
MODELS = {
    "SimpleMLP": "SimpleMLP",
    "Autoencoder": "Autoencoder",
    "LSTM": "",
    "DSCNN": "DSCNN",
    "ResNet8": "ResNet8",
    "CCT_LoRA": "CCT_LoRA",
}
"""Models with their folder of the reference data; those without are ours, of the same name in small letters."""
CORES = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m3", "cortex-m0plus")
TARGETS = ("qemu_riscv", "siracusa")
HOST = "this machine"
UNITS = {"qemu_riscv": "instructions", "siracusa": "cycles"}


@dataclass(frozen=True)
class Row:
    """A model on a machine; `count` is of a pass, `update` of an update, in `unit`; bytes of code, memory, stack.

    0 is what was not measured.
    """

    model: str
    machine: str
    digest: str
    unit: str = ""
    count: int = 0
    update: int = 0
    text: int = 0
    memory: int = 0
    stack: int = 0


def digest_of(losses: bytes, state: int) -> str:
    """The digest of losses' bits, little-endian, and the digest of the state."""
    return hashlib.sha256(losses + state.to_bytes(8, "little")).hexdigest()[:8]


def printed_digest(text: str) -> str:
    """The same of what a library's example prints."""
    rows = [line.split() for line in text.splitlines()]
    losses = np.array([int(row[2], 16) for row in rows if row[0] == "loss"], "<u4")
    return digest_of(losses.tobytes(), int(rows[-1][1], 16))


def read_case(model: str, data: Path, root: Path) -> Case:
    """One update of a model's case."""
    folder = MODELS[model]
    place = next((data / "training" / folder).glob("*_train")) if folder else case_dir(model.lower(), root)
    known = pipeline.load_training(place)
    assert known.dataset is not None
    return pipeline.load_training(place, n_steps=known.dataset.n_accum)


def on_host(model: str, files: Files, folder: Path) -> Row:
    """The library, built by its own Makefile."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    run = subprocess.run(["make", "-s", "-C", str(folder), "run"], capture_output=True, text=True, check=True)
    return Row(model, HOST, printed_digest(run.stdout), memory=struct_bytes(files))


def struct_bytes(files: Files) -> int:
    """The bytes of a library's struct."""
    return int(json.loads(str(files["manifest.json"]))["bytes"]["struct"])


def on_core(model: str, files: Files, name: str) -> Row:
    """The library on a core, under its emulator."""
    built = compile_library(files, NAME, core_of(name))
    run = run_example(files, NAME, built)
    text = sum(row[0] for symbol, row in built.functions.items() if not is_constant(symbol))
    train, update, _ = run.instructions
    stack = built.stack.bytes
    return Row(
        model, name, printed_digest(run.printed), "instructions", train, update, text, struct_bytes(files), stack
    )


def on_target(model: str, case: Case, files: Files, name: str, folder: Path) -> Row:
    """The usual program on a target with several memories."""
    assert case.dataset is not None
    options = pipeline.accumulate_of(case, Options(name, outermost=load(name).levels[-1].name))
    tiling, plan = pipeline.plan_case(case, options, checks=0)
    pipeline.write_case(case, tiling, plan, folder)
    program = pipeline.build_case(plan, folder)
    outcome = pipeline.execute(case, plan, folder)
    image = files["weights.bin"]
    assert isinstance(image, bytes)
    state = json.loads(str(files["manifest.json"]))["state"]
    known = {**outcome.arrays, **outcome.accumulators}
    weights = b"".join(known[tensor["name"]].tobytes() for tensor in state)
    digest = digest_of(np.asarray(outcome.losses, "<f4").tobytes(), fnv1a(image[: state[0]["at"]] + weights))
    count, update = (int(outcome.bench[key]) // case.passes for key in ("train_cycles", "opt_cycles"))
    size = build.compiler(build.toolchain(load(name)))[0].replace("-gcc", "-size")
    sizes = subprocess.run([size, str(program)], capture_output=True, text=True, check=True)
    text, peak = int(sizes.stdout.splitlines()[1].split()[0]), sum(level.peak for level in plan.levels)
    return Row(model, name, digest, UNITS[name], count, update, text, peak)


def measured(model: str, case: Case, known: dict[tuple[str, str], Row]) -> Iterator[Row]:
    """The rows of a model, those that are known first of all."""
    files = library_files(material(case, NAME, Options(target=library_rules().target)))
    for machine in (HOST, *CORES, *TARGETS):
        if (model, machine) in known:
            yield known[model, machine]
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                if machine == HOST:
                    row = on_host(model, files, Path(folder))
                elif machine in CORES:
                    row = on_core(model, files, machine)
                else:
                    row = on_target(model, case, files, machine, Path(folder))
            except ToolMissing as problem:
                print(f"{model} on {machine}: {problem}", flush=True)
                continue
        print(row, flush=True)
        yield row


def table(rows: list[Row]) -> str:
    """The page's table: a row per model and machine."""
    lines = [
        "| model | machine | digest | a pass | an update | code | memory | stack |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        unit = f" {row.unit}" if row.unit else ""
        numbers = [f"{n:,}".replace(",", " ") if n else "-" for n in (row.text, row.memory, row.stack)]
        counts = [f"{n:,}{unit}".replace(",", " ") if n else "-" for n in (row.count, row.update)]
        lines.append(f"| {row.model} | `{row.machine}` | `{row.digest}` | {' | '.join([*counts, *numbers])} |")
    return "\n".join(lines)


def differing(rows: list[Row]) -> list[str]:
    """The models with more than one digest."""
    return [model for model in MODELS if len({row.digest for row in rows if row.model == model}) > 1]


def main() -> None:
    """Measure, and write result and page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--again", action="store_true", help="measure what is there, too")
    options.add_argument("--data", type=Path, default=SHARED, help="folder of the reference data")
    options.add_argument("--model", action="append", help="these models alone; rows of others are kept")
    a = options.parse_args()
    old = [Row(**row) for row in json.loads(RESULT.read_text())] if RESULT.exists() else []
    stale = (a.model or MODELS) if a.again else ()
    known = {(row.model, row.machine): row for row in old if row.model not in stale}
    with tempfile.TemporaryDirectory() as root:
        for model in a.model or MODELS:
            for row in measured(model, read_case(model, a.data, Path(root)), known):
                known[row.model, row.machine] = row
                rows = sorted(known.values(), key=lambda r: (list(MODELS).index(r.model), order(r.machine)))
                RESULT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    publish(__file__, PAGE, MARKS, table(rows))
    if differing(rows):
        raise SystemExit(f"digests differ: {', '.join(differing(rows))}")


def order(machine: str) -> int:
    """The place of a machine in the table."""
    return (HOST, *CORES, *TARGETS).index(machine)


if __name__ == "__main__":
    main()
