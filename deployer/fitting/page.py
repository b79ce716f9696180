"""The report of a run as one page of HTML that works offline."""

from collections.abc import Mapping, Sequence
from typing import Any

from deployer.core.operator import Array
from deployer.core.plan import Plan
from deployer.core.safe_text import html_text
from deployer.fitting.history import EpochRow


def fit_page(rows: Sequence[EpochRow], losses: Array, per_epoch: int, plan: Plan, record: Mapping[str, Any]) -> str:
    """The page."""
    return html_text(str(record["verdict"]))
