"""Stage 1: reads the ONNX files of a case into raw graphs."""

from pathlib import Path

from deployer.core.errors import FileProblem
from deployer.core.files.reading import real_path
from deployer.core.operator import accumulator_of
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.frontend.raw_graph import Source
from deployer.frontend.reader import Edit, read_graph


def read_graphs(train: Path, optimizer: Path | None, axes: Axes = NO_AXES, edit: Edit | None = None) -> Source:
    """Read a training graph with its optimizer graph, or an inference graph alone; `axes` are lengths of its open axes,
    `edit` changes its model before it is read.

    Raises FileProblem where a file is missing or damaged, or a training graph comes without optimizer.
    """
    main = read_graph(train, "train" if optimizer else "infer", axes=axes, edit=edit)
    if optimizer is not None:
        return Source(main, read_graph(optimizer, "optimizer", sequences=True))
    if any(accumulator_of(node) for node in main.nodes):
        raise FileProblem(
            f"{train} is a training graph, and its optimizer graph is missing",
            [("looked for", str(optimizer_dir(train.parent) / "network.onnx"))],
            "put the optimizer graph there",
        )
    return Source(main, None)


def train_dir(case: Path) -> Path:
    """The folder with the training graph: `case` itself, or the only `*_train` folder in it."""
    if (case / "network.onnx").is_file():
        return case
    if not case.is_dir():
        raise FileProblem(f"{case} is not a folder", hint="give a *_train folder, or the folder that contains it")
    folders = sorted(p for p in case.glob("*_train") if p.is_dir())
    if len(folders) == 1:
        return folders[0]
    if case.name.endswith("_train"):
        raise FileProblem(f"{case / 'network.onnx'} does not exist", hint="export the training graph there")
    raise FileProblem(
        f"{case} holds {len(folders)} *_train folders, not one",
        [("found", ", ".join(p.name for p in folders) or "none")],
        "give the *_train folder itself, or a folder with ONNX Runtime's training_model.onnx",
    )


def optimizer_dir(train: Path) -> Path:
    """The optimizer folder of a training folder: `<m>_train` -> `<m>_optimizer` beside it."""
    folder = real_path(train)
    return folder.with_name(folder.name.removesuffix("_train") + "_optimizer")
