"""Values of varied options: lists, ranges and drawn numbers, and who is told what of the runs."""

import math
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from deployer.core.errors import FileProblem, OptionProblem
from deployer.sweeps.axes import drawn_values, grid, swept_option
from deployer.sweeps.records import SweptResult, SweptRun, known_result
from deployer.sweeps.samplers import Listed, sampler_of
from deployer.sweeps.sweep import RUNS, Sweep, SweptRow
from deployer.sweeps.table import best_rows, table_text

pytestmark = [pytest.mark.host]


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("lr=0.1,0.01", ("0.1", "0.01")),
        ("--buffering=single,double", ("single", "double")),
        ("budget=L1=1000,L1=2000", ("L1=1000", "L1=2000")),
        ("l1=16000:64000:16000", ("16000", "32000", "48000", "64000")),
        ("lr=0.1:0.35:0.1", ("0.1", "0.2", "0.3")),
        ("warmup-steps=10:0.5,20", ("10:0.5", "20")),
        ("optimizer=adam", ("adam",)),
    ],
)
def test_lists(text: str, choices: tuple[str, ...]) -> None:
    """Values are the words of the command line; steps are exact in decimals."""
    assert swept_option(text).choices == choices


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("lr", "names no option"),
        ("=1,2", "names no option"),
        ("lr=", "names no option"),
        ("lr=1,,2", "empty value"),
        ("lr=1,2,1", "the value '1' twice"),
        ("lr=2:1", "empty range"),
        ("lr=1:2:0", "empty range"),
        ("lr=log:0:1", "empty range"),
        ("lr=log:1:2:3", "no range"),
        ("lr=log:0.1,0.2", "no range"),
        ("lr=a:b", "'a' is not a number"),
        ("lr=0:inf", "'inf' is not a number"),
    ],
)
def test_refused(text: str, cause: str) -> None:
    """Texts that mean nothing."""
    with pytest.raises(OptionProblem, match=cause):
        swept_option(text)


def test_grid() -> None:
    """All combinations, the last option's values fastest; a range has no end."""
    rows = list(grid([swept_option("a=1,2"), swept_option("b=x,y,z")]))
    assert [(row["a"], row["b"]) for row in rows] == [(a, b) for a in "12" for b in "xyz"]
    with pytest.raises(OptionProblem, match="a grid has no end"):
        list(grid([swept_option("a=1,2"), swept_option("c=0:1")]))


def test_drawn_values() -> None:
    """Each run has its own, within its range and even in its logarithm, whatever the other runs are."""
    options = [swept_option("lr=log:0.001:10"), swept_option("x=-1:3"), swept_option("kind=a,b")]
    rows = [drawn_values(options, 7, number) for number in range(400)]
    assert rows[13] == drawn_values(options, 7, 13)
    assert rows[13] != drawn_values(options, 8, 13)
    rates, places = ([float(row[name]) for row in rows] for name in ("lr", "x"))
    assert 0.001 <= min(rates) < 0.002
    assert 5 < max(rates) <= 10
    assert -1 <= min(places) < -0.9
    assert 2.9 < max(places) <= 3
    middle = sum(math.log10(rate) for rate in rates) / len(rates)
    assert abs(middle - -1) < 4 * 4 / math.sqrt(12 * len(rows))  # four deviations of a mean over four decades
    assert abs(sum(row["kind"] == "a" for row in rows) - 200) < 4 * math.sqrt(len(rows)) / 2


def test_number_of_runs() -> None:
    """A grid may be cut; other samplers need a number."""
    options = [swept_option("a=1,2,3")]
    assert len(sampler_of("grid", options, (), 0, 2, 8).ask()) == 2
    assert len(sampler_of("random", options, (), 0, 9, 8).ask()) == 9
    with pytest.raises(OptionProblem, match="no number of runs"):
        sampler_of("random", options, (), 0, None, 8)
    with pytest.raises(OptionProblem, match="more than 100000 runs"):
        sampler_of("grid", [swept_option("a=1:1000:1"), swept_option("b=1:1000:1")], (), 0, None, 8)


class Immediate(Executor):
    """Answers calls at once with numbers of the words, by `results`; it counts them."""

    def __init__(self, results: dict[str, dict[str, Any]]) -> None:
        """None was called."""
        self.results, self.called = results, list[str]()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The result of the run's last word."""
        folder, words, _ = args
        Path(folder).mkdir(parents=True)
        self.called.append(words[-1])
        future: Future[Any] = Future()
        future.set_result(self.results[words[-1]])
        return future


PASSED = {"outcome": "passed", "cause": "", "numbers": {"loss": 1.0, "l1_bytes": 4096.0}}
RESULTS: dict[str, dict[str, Any]] = {
    "a": PASSED,
    "b": {**PASSED, "numbers": {"loss": 0.5, "l1_bytes": 8192.0}},
    "c": {"outcome": "refused", "cause": "does not fit", "numbers": {}},
    "d": {"outcome": "crashed", "cause": "exit code -9", "numbers": {}},
    "e": {**PASSED, "numbers": {"loss": 1.5, "l1_bytes": 4096.0}},
}


def swept(folder: Path, executor: Executor, names: str = "abcde") -> list[SweptRow]:
    """The rows of a sweep over names."""
    sweep = Sweep(folder, ["train", "-t", "case"])
    sweep.run(Listed([{"x": name} for name in names]), executor, lambda *_: None, lambda _: None)
    return sweep.rows


def test_rows_and_what_is_known(tmp_path: Path) -> None:
    """Rows stand in the order of their numbers; what ended is not run again, unless it crashed or was damaged."""
    executor = Immediate(RESULTS)
    rows = swept(tmp_path, executor)
    assert executor.called == list("abcde")
    assert table_text(rows).splitlines() == [
        "run,digest,x,loss,l1_bytes,outcome,cause",
        f"0,{rows[0].digest},a,1,4096,passed,",
        f"1,{rows[1].digest},b,0.5,8192,passed,",
        f"2,{rows[2].digest},c,,,refused,does not fit",
        f"3,{rows[3].digest},d,,,crashed,exit code -9",
        f"4,{rows[4].digest},e,1.5,4096,passed,",
    ]
    for path in (tmp_path / RUNS).iterdir():
        if not (path / "result.json").exists():
            path.rmdir()
    again = Immediate(RESULTS)
    assert table_text(swept(tmp_path, again)) == table_text(rows)
    assert again.called == ["d"]
    place = tmp_path / RUNS / rows[0].digest
    (place / "result.json").write_text('{"outcome": "passed"}')
    with pytest.raises(FileProblem, match="not the result of this run"):
        known_result(place, rows[0].digest)


def test_equal_runs_run_once(tmp_path: Path) -> None:
    """Drawn values repeat; the table has a row for each."""
    executor = Immediate(RESULTS)
    rows = swept(tmp_path, executor, "abab")
    assert executor.called == ["a", "b"]
    assert [row.digest for row in rows[:2]] == [row.digest for row in rows[2:]]
    assert [row.result.numbers["loss"] for row in rows] == [1.0, 0.5, 1.0, 0.5]


def test_best_rows(tmp_path: Path) -> None:
    """No other run beats them in every goal; a run that was refused is none of them."""
    rows = swept(tmp_path, Immediate(RESULTS))

    def best(*goals: tuple[str, str]) -> str:
        return "".join(row.run.values["x"] for row in best_rows(rows, goals))

    assert best(("loss", "minimize")) == "b"
    assert best(("loss", "maximize")) == "e"
    assert best(("loss", "minimize"), ("l1_bytes", "minimize")) == "ba"
    assert best(("loss", "maximize"), ("l1_bytes", "maximize")) == "eb"
    assert best(("accuracy", "maximize")) == ""


def test_digest(tmp_path: Path) -> None:
    """It follows the words and the content of files and folders that they name."""
    path = tmp_path / "data.npz"
    path.write_bytes(b"1")
    (tmp_path / "case").mkdir()
    run = SweptRun(0, {}, ("train", str(path), str(tmp_path / "case")))
    first = run.digest()
    assert SweptRun(5, {"a": "b"}, run.words).digest() == first
    path.write_bytes(b"2")
    second = run.digest()
    (tmp_path / "case/network.onnx").write_bytes(b"3")
    assert len({first, second, run.digest(), SweptRun(0, {}, ("infer", *run.words[1:])).digest()}) == 4


def test_words() -> None:
    """A value replaces its name in braces, or is an option of its own; other braces stay."""
    sweep = Sweep(Path("out"), ["fit", "net_{width}.onnx", "--trainable", "a{2}", "--lr", "{lr}"])
    words = sweep.command({"width": "8", "lr": "0.1", "batch-size": "4"})
    assert words == ("fit", "net_8.onnx", "--trainable", "a{2}", "--lr", "0.1", "--batch-size", "4")


def test_a_result_is_kept(tmp_path: Path) -> None:
    """The same is read as was written."""
    result = SweptResult("failed", "a fault", {"loss": 0.1})
    result.write(tmp_path, "abc")
    assert known_result(tmp_path, "abc") == result
    assert known_result(tmp_path / "other", "abc") is None
