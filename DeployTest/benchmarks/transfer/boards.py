"""Boards on which a head trains behind a frozen part of floats, and behind the same part of 8 bits.

`python -m DeployTest.benchmarks.transfer.boards`, where PyTorch is installed, writes boards.json and a table of
docs/fine-tuning.md, in ten minutes. The nets are those of the transfer, with weights as PyTorch draws them, as sizes do
not depend on these; a pass has one sample.
"""

import importlib
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from rich.console import Console

from deployer import pipeline
from deployer.firmware.common import LibraryForm
from deployer.sizing.boards import boards
from deployer.sizing.fits import fit_board
from deployer.sizing.needs import CaseNeeds
from deployer.training.train_graph import build_train_graph
from DeployTest.benchmarks.transfer.transfer import SOURCE, SUBJECTS, TARGET, samples
from DeployTest.benchmarks.upkeep.commits import publish

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "fine-tuning.md"
MARKS = ("<!-- boards table -->", "<!-- end of boards table -->")
FORMS = {
    "floats": ("floats", LibraryForm()),
    "8 bits": ("integers", LibraryForm()),
    "8 bits, `--inputs int8 --predict-after-update`": ("integers", LibraryForm("int8", after_update=True)),
}
"""File and form of a library of each row."""
CALIBRATED = 2
"""Samples of each class; ranges decide about no size."""


@dataclass(frozen=True)
class Row:
    """A net in a form: bytes of its struct and its constants, and on which boards it fits or does not."""

    model: str
    form: str
    memory: int
    constants: int
    fits: tuple[str, ...]
    lacks: tuple[str, ...]


def files_of(name: str, folder: Path) -> dict[str, Path]:
    """The files of a net, with one sample a pass."""
    torch = importlib.import_module("torch")
    front = importlib.import_module("deployer.torch")
    capture = importlib.import_module("deployer.torch.capture").capture
    torch.manual_seed(0)
    subject = SUBJECTS[name]
    net = getattr(importlib.import_module("DeployTest.benchmarks.transfer.nets"), subject.name)(TARGET).eval()
    x, _ = samples(subject, 0, SOURCE, CALIBRATED, 2)
    files = {form: folder / f"{form}.onnx" for form in ("floats", "integers")}
    onnx.save(capture(net, [torch.from_numpy(x[:1])], dropout="off", check=False).model, files["floats"])
    front.quantize(net, x, files["integers"], freeze=["features"], batch_size=1, force=True)
    return files


def row_of(name: str, form: str, model: Path, library: LibraryForm, folder: Path) -> Row:
    """The row of a file of a net, as a library of a form."""
    build_train_graph(model, "cross_entropy", "sgd", 0.01, "^head", folder, warn=lambda warning: None)
    case = pipeline.load_training(folder, warn=lambda warning: None)
    needs = CaseNeeds(case, lambda warning: None, None, library)
    fits = {board.stem: fit_board(board, needs, counted=False).fits for board in boards() if board.target is None}
    kinds = (tuple(stem for stem, found in fits.items() if found == wanted) for wanted in (True, False))
    return Row(name, form, needs.memory, needs.constants, *kinds)


def markdown(rows: list[Row]) -> str:
    """A line per net and form."""
    lines = ["| net | frozen part | RAM, B | constants, B | boards | fits |", "|---|---|---:|---:|---:|---|"]
    for r in rows:
        count, stems = f"{len(r.fits)} of {len(r.fits) + len(r.lacks)}", ", ".join(r.fits) or "none"
        lines.append(f"| {r.model} | {r.form} | {r.memory} | {r.constants} | {count} | {stems} |")
    return "\n".join(lines)


def main() -> None:
    """Measure all nets and renew the result and the page."""
    console, rows = Console(stderr=True), list[Row]()
    with tempfile.TemporaryDirectory() as scratch:
        for name in SUBJECTS:
            files = files_of(name, Path(scratch))
            for number, (form, (file, library)) in enumerate(FORMS.items()):
                rows.append(row_of(name, form, files[file], library, Path(scratch) / f"{name[:4]}{number}"))
                console.print(str(rows[-1]))
    print(markdown(rows))
    RESULT.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, markdown(rows))


if __name__ == "__main__":
    main()
