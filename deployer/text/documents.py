"""Documents of a text file or a folder, and those of them that are kept for evaluation."""

import re
from collections.abc import Sequence
from pathlib import Path

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem, unreadable
from deployer.core.files.reading import content_of
from deployer.text.tokenizer import TEXT_BYTES

SUFFIX = ".txt"
"""The end of the names of a folder's documents."""
_BLANK_LINES = re.compile(rb"\r?\n(?:[ \t]*\r?\n)+")
_HINT = "a text file, or a folder of .txt files"


def read_documents(path: Path | str, separator: str | None = None) -> tuple[bytes, ...]:
    """The documents of a text file, or of a folder whose .txt files are one document each, by their names.

    With a separator each file is divided at it; without, a single file at its blank lines. Documents have no spaces and
    line ends around them, and none is empty. FileProblem where no document is left.
    """
    path = Path(path)
    is_folder = path.is_dir()
    if separator == "":
        raise OptionProblem(
            "the separator of documents is empty", hint="a line that is in no document, such as <|end|>"
        )
    found: list[bytes] = []
    left = TEXT_BYTES
    for file in _files(path) if is_folder else [path]:
        text = content_of(file, left, _HINT, f"texts of at most {TEXT_BYTES} B together")
        left -= len(text)
        whole = [text] if is_folder else _BLANK_LINES.split(text)
        found += text.split(separator.encode()) if separator is not None else whole
    documents = tuple(stripped for document in found if (stripped := document.strip(b" \t\r\n")))
    if not documents:
        raise FileProblem(f"{path} has no text", [("bytes", str(TEXT_BYTES - left))], _HINT)
    return documents


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIX))
    except OSError as error:
        raise unreadable(folder, error) from None
    if not found:
        raise FileProblem(f"{folder} has no file that ends with {SUFFIX}", hint=_HINT)
    return found


def split_documents(documents: Sequence[bytes], evaluation: float = 0.1) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Documents to train on, and those for evaluation, the last ones, which are a share of all; both in their order.

    OptionProblem for a share that is not in [0, 1), DatasetMismatch where there are fewer than two documents to share.
    """
    if not 0 <= evaluation < 1:
        facts = [("share", str(evaluation)), ("range", "0 to less than 1")]
        raise OptionProblem("the share of documents for evaluation is out of range", facts, "a share of 0.1")
    if evaluation == 0:
        return tuple(documents), ()
    if len(documents) < 2:
        facts = [("documents", str(len(documents)))]
        hint = "--validation FILE with a text of its own, or --separator TEXT, which divides this one"
        raise DatasetMismatch("one document cannot be both trained on and kept for evaluation", facts, hint)
    count = min(max(1, round(evaluation * len(documents))), len(documents) - 1)
    return tuple(documents[:-count]), tuple(documents[-count:])
