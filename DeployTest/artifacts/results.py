"""Train the artifacts that ONNX Runtime made of PyTorch nets by the command line, and write the table of results.

`make runtime-results` runs this behind `make runtime-cases`. Each case is trained with its expected.npz, and in a copy
without; the differences from ONNX Runtime's losses and weights are computed here, from what the program dumped.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np

from deployer.frontend.reader import read_graph
from deployer.frontend.runtime.case import EXPECTED, LOSS, TRAIN

HERE = Path(__file__).parent
TABLE = tomllib.loads((HERE / "cases.toml").read_text())
BEGIN, END = "<!-- runtime results -->", "<!-- end of runtime results -->"
L1 = 32000


def trained(case: Path, optimizer: str, folder: Path) -> tuple[dict[str, object], Path]:
    """The last line that `deployer train` prints of a case, and the file with the final weights."""
    dump = folder / "trained.npz"
    options = [
        "-t",
        str(case),
        "--l1",
        str(L1),
        "--accumulate-grad-batches",
        str(TABLE["per_update"]),
        "--json",
        "--force",
    ]
    options += ["--lr", str(TABLE["rates"][optimizer]), "-o", str(folder / "c"), "--dump", str(dump)]
    command = [sys.executable, "-m", "deployer.cli", "train", *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines() or [json.dumps({"verdict": run.stderr.strip()[-300:]})]
    return json.loads(lines[-1]), dump


def differences(dump: Path, expected: Path) -> tuple[float, float, str]:
    """The largest difference of a loss and of a weight from ONNX Runtime's, and the name of that weight."""
    if not dump.exists():
        return np.nan, np.nan, ""
    with np.load(dump) as ours, np.load(expected) as theirs:
        loss = float(np.abs(ours[LOSS] - theirs[LOSS]).max())
        names = [name for name in theirs.files if name != LOSS]
        worst = max(names, key=lambda name: np.abs(ours[name] - theirs[name]).max())
        return loss, float(np.abs(ours[worst] - theirs[worst]).max()), worst


def row(cases: Path, name: str) -> tuple[str, bool]:
    """The table's line of a net, and whether both verdicts are `passed`."""
    net, case = TABLE["torch_nets"][name], cases / f"torch_{name}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        compared, dump = trained(case, net["optimizer"], folder)
        loss, weight, worst = differences(dump, case / EXPECTED)
        copy = folder / "alone"
        shutil.copytree(case, copy)
        (copy / EXPECTED).unlink()
        alone, _ = trained(copy, net["optimizer"], folder)
    nodes = len(read_graph(case / TRAIN, "train").nodes)
    verdicts = [str(result.get("verdict", result.get("message", "error"))) for result in (compared, alone)]
    how = f"{net['loss'].removesuffix('Loss')}, {net['optimizer']}" + (f", clip {net['clip']}" if "clip" in net else "")
    cells = (name, how, str(nodes), f"{loss:.1e}", f"{weight:.1e} ({worst})", *verdicts)
    return f"| {' | '.join(cells)} |", verdicts == ["passed", "passed"]


def main() -> None:
    """Print the table, and put it between its marks in a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", type=Path, help="folder that generate_torch.py filled")
    parser.add_argument("page", type=Path, nargs="?", help="page with the marks between which the table goes")
    parser.add_argument("--net", action="append", help="a net; by default all")
    options = parser.parse_args()
    lines = ["| net | loss, optimizer | nodes | losses off by | weights off by | with expected.npz | without |"]
    lines.append(f"|{'---|' * 7}")
    right = 0
    for name in options.net or TABLE["torch_nets"]:
        line, good = row(options.cases, name)
        print(line, flush=True)
        lines.append(line)
        right += good
    print(f"{right} of {len(lines) - 2} passed, with expected.npz and without")
    if options.page:
        text = options.page.read_text()
        before, rest = text.split(BEGIN)
        options.page.write_text("\n".join([f"{before}{BEGIN}", *lines, f"{END}{rest.split(END)[1]}"]))


if __name__ == "__main__":
    main()
