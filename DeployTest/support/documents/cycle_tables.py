"""What benchmarks under GVSoC write: results, a row on each line, with the simulator that they were measured by."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from deployer.core.errors import UserError


def simulator() -> str:
    """The commit of the simulator's sources beside its install folder, where they are kept."""
    sources = Path(os.environ.get("GVSOC_INSTALL_DIR", "")).parent / "src"
    command = ["git", "-C", str(sources), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def write_rows(path: Path, head: Mapping[str, Any], name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a JSON object: the items of `head`, the simulator, and under `name` the rows."""
    whole = json.dumps({**head, "simulator": f"gvsoc {simulator()}"})
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.write_text(f'{whole[:-1]}, "{name}": [\n{lines}\n]}}\n')


def end(main: Callable[[], int]) -> NoReturn:
    """Leave with what a benchmark returns, or with the message of an error that is the user's."""
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(str(error))
