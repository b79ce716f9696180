"""Files of benchmarks under GVSoC: results, a row on each line, with the simulator that measured them."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from deployer.core.errors import UserError


def add_simulator(parser: argparse.ArgumentParser) -> None:
    """Add --simulator: what an installed simulator is, nothing in its folder says."""
    parser.add_argument("--simulator", default="GVSoC edfcd839", help="name and version for the record")


def simulator_named(description: str | None) -> str:
    """The simulator's name on the command line of a benchmark that has no other flag."""
    parser = argparse.ArgumentParser(description=description)
    add_simulator(parser)
    return str(parser.parse_args().simulator)


def write_rows(
    path: Path, head: Mapping[str, Any], simulator: str, name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write a JSON object: the items of `head`, the simulator, and under `name` the rows."""
    whole = json.dumps({**head, "simulator": simulator})
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.write_text(f'{whole[:-1]}, "{name}": [\n{lines}\n]}}\n')


def end(main: Callable[[], int]) -> NoReturn:
    """Leave with what a benchmark returns, or with the message of an error that is the user's."""
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(str(error))
