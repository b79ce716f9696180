"""A pytest plugin that runs the tests on a list alone, in its order, and notes which of them fail.

Switched on by the environment variable MUTANTS_CHOSEN, a file with one test a line; what fails goes beside it, into a
file with the ending `.failed`. A test that is no longer there is no failure.
"""

import os
from pathlib import Path

import pytest


class Chosen:
    """Selects the listed tests, and writes the failed ones to a file."""

    def __init__(self, listed: Path) -> None:
        self.place = {test: place for place, test in enumerate(listed.read_text().splitlines())}
        self.failures = listed.with_suffix(".failed")
        self.failures.write_text("")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what is listed, in its order."""
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            with self.failures.open("a") as file:
                file.write(f"{report.nodeid}\n")


def pytest_configure(config: pytest.Config) -> None:
    """Register the selection if the environment variable is set."""
    listed = os.environ.get("MUTANTS_CHOSEN")
    if listed:
        config.pluginmanager.register(Chosen(Path(listed)))
