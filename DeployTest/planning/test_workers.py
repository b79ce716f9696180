"""Rivals solved side by side: the same bytes with any number of workers and in any order of ends, errors, Ctrl-C."""

import gc
import json
import os
import re
import signal
import threading
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import DeployerError
from deployer.core.plan import Options
from deployer.planning import alternatives, plan_choice, tile
from deployer.planning.alternatives import Alternative, Prepared
from deployer.planning.lifetimes import find_lifetimes
from deployer.planning.schedule import make_schedule
from deployer.planning.workers import Stopped, Workers, gc_paused
from deployer.tilers.levels.model import HomeProblem, HomeSelection
from DeployTest.support.building.cases import case_dir, load_case
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]

PLACES = {
    "inner level": ("simple_mlp", Options("host", "auto", {"L1": 4000})),
    "one tile a step": ("simple_mlp", Options("host", "auto", {"L1": 240000})),
    "spilled": ("autoencoder", Options("host", "auto", {"L1": 16000, "L2": 70000}, outermost="L3")),
    "nearly": ("autoencoder", Options("host", "auto", {"L1": 64000, "L2": 200000}, outermost="L3")),
    "one strategy": ("autoencoder", Options("host", "training_double", {"L1": 16000, "L2": 70000}, outermost="L3")),
}


@pytest.mark.parametrize(("cycles", "taken"), [(99_900, "auto"), (99_901, "double"), (100_001, "double")])
def test_what_a_mixed_plan_has_to_gain(
    cycles: int, taken: str, models_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that mixes modes replaces those of one mode where the model makes it cheaper by a thousandth."""
    alive = find_lifetimes(make_schedule(load_case("simple_mlp", models_root).program, Options("host", "auto")))
    all_cycles = {"auto": cycles, "single": 120_000, "double": 100_000}
    tilings = {name: SimpleNamespace(name=name, spilled=()) for name in all_cycles}
    tiler = SimpleNamespace(alone={(name, False): (tilings[name], None) for name in ("single", "double")})
    monkeypatch.setattr(plan_choice, "_finished", lambda name, *words: (tiler, (tilings[name], None)))
    monkeypatch.setattr(plan_choice, "_update_cycles", lambda tiling, plan: all_cycles[tiling.name])
    monkeypatch.setattr(plan_choice, "_sealed", lambda tiling, plan: plan)
    monkeypatch.setattr(tile, "least", lambda tiling, runs: 0)
    found: Any = plan_choice.plan_best(alive)[0]
    assert found.name == taken


def planned(place: str, root: Path, jobs: int) -> tuple[str, str]:
    """The text of a place's plan and tiling with so many workers."""
    name, options = PLACES[place]
    tiling, plan = pipeline.plan_case(load_case(name, root), options, jobs=jobs)
    return artefact.dumps(plan), artefact.dumps(tiling)


@pytest.mark.parametrize("place", [pytest.param(n, marks=[pytest.mark.slow] * (n == "spilled")) for n in PLACES])
def test_any_number_of_workers_gives_the_same_bytes(place: str, models_root: Path) -> None:
    alone = planned(place, models_root, 1)
    assert planned(place, models_root, 2) == alone
    assert planned(place, models_root, 4) == alone


@pytest.mark.slow
def test_artefacts_are_small(models_root: Path) -> None:
    """Less than 5000 B a step, in lines that can be edited."""
    for text in planned("spilled", models_root, 1):
        body = json.loads(text)["body"]
        assert len(text) < 5000 * len(body["steps"])
        assert max(len(line) for line in text.split("\n") if "base64" not in line) <= 120


@pytest.mark.parametrize(("test", "l1", "later"), [("autoencoder", 16000, []), ("simple_mlp", 240000, ["single"])])
def test_a_rival_far_behind_is_left_out_of_later_attempts(
    test: str, l1: int, later: list[str], monkeypatch: pytest.MonkeyPatch, models_root: Path
) -> None:
    """Single buffering takes a few percent more cycles where steps have many tiles, and none where they have one."""
    program = load_case(test, models_root).program
    alive = find_lifetimes(make_schedule(program, Options("host", "auto", {"L1": l1})))
    begun = list[str]()

    def begin(name: str, *words: Any) -> Alternative:
        begun.append(name)
        return Alternative(name, *words)

    monkeypatch.setattr(tile, "Alternative", begin)
    tiler = tile.Tiler(alive)
    tiler.tile((0, 0), 1)
    assert begun == ["single", "double", "auto"]
    for again in (tiler, tile.Tiler(alive, other=tiler)):
        begun.clear()
        again.tile((0, 64), 1)
        assert begun == [*later, "double", "auto"]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_counts_parts(jobs: int, models_root: Path) -> None:
    """After each part of each rival, how many are done; then which rivals are planned to their end as well, and what is
    planned again with a search for homes.
    """
    said, (name, options) = list[str](), PLACES["spilled"]
    pipeline.plan_case(load_case(name, models_root), options, said.append, jobs=jobs)
    assert (said[0], said[1], said[-1]) == ("schedule and lifetimes", "tiles", "addresses")
    form = re.compile(r"tiles, \d+ %, (\d+) of (\d+) parts done, the last (\w+): (.*)")
    end = said.index("addresses")
    parts = [form.fullmatch(text) for text in said[2:end]]
    assert [match and int(match[1]) for match in parts] == list(range(1, 10))
    beyond = [text for text in said[end:] if not text.startswith("tiles, ")]
    first = ["addresses", "single to its end", "tiles", "addresses", "auto with a search for homes", "tiles"]
    assert beyond[: len(first)] == first
    searches = {f"{alternative} with a search for homes" for alternative in ("single", "double")}
    assert set(beyond[len(first) :]) <= {"addresses", "tiles"} | searches
    assert said[end - 1].startswith("tiles, 100 %, 9 of 9 parts done, the last auto: L1 tiled")
    assert {match[3] for match in parts if match} == {"single", "double", "auto"}


def test_progress_is_for_terminals(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compile` shows on a terminal what it does, and prints its result alone where there is none."""
    words = ("compile", "-t", str(case_dir("simple_mlp", models_root)), "-o", str(tmp_path / "out"))
    assert deployer(*words) == 0
    streams = capsys.readouterr()
    assert streams.err == ""
    assert streams.out.split() == ["C", "and", "plan:", str(tmp_path / "out")]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("slow", ["single", "double", "auto"])
def test_no_bit_depends_on_which_rival_ends_first(
    slow: str, models_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rival begins when all others have computed what they can, while those go on."""
    alone = planned("nearly", models_root, 1)
    others, lock, ended = threading.Event(), threading.Lock(), list[str]()
    prepared = Alternative._prepared

    def held(self: Alternative, spills: bool, solves: bool) -> Prepared:
        if self.name == slow:
            assert others.wait(60)
        result = prepared(self, spills, solves)
        with lock:
            ended.append(self.name)
            if len(ended) == 2 and slow not in ended:
                others.set()
        return result

    monkeypatch.setattr(Alternative, "_prepared", held)
    assert planned("nearly", models_root, 3) == alone
    assert ended[-1] == slow


def test_solvers_start_where_they_would_alone(models_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last rival starts from the best before it, however many workers there are."""
    starts, results, real = list[int](), list[int](), alternatives.improved

    def noted(problem: HomeProblem, start: HomeSelection | None) -> HomeSelection | None:
        choice = real(problem, start)
        assert start is not None
        assert choice is not None
        starts.append(start.cycles)
        results.append(choice.cycles)
        return choice

    monkeypatch.setattr(alternatives, "improved", noted)
    planned("nearly", models_root, 1)
    alone = starts.copy()
    assert len(alone) == 3
    assert alone[2] == min(results[:2])
    starts.clear()
    planned("nearly", models_root, 2)
    assert set(starts) == set(alone)


@pytest.mark.slow
def test_errors_are_those_of_one_worker(models_root: Path) -> None:
    """A level between that is too small is named in the same words, and so is a fault in a worker."""
    options = Options("host", "auto", {"L1": 16000, "L2": 600}, outermost="L3")
    texts = []
    for jobs in (1, 2, 4):
        with pytest.raises(DeployerError) as error:
            pipeline.plan_case(load_case("autoencoder", models_root), options, jobs=jobs)
        texts.append(str(error.value))
    assert texts[0].startswith("TilingInfeasible: node")
    assert len(set(texts)) == 1


def test_workers_results_are_asked_for_in_any_order() -> None:
    """Calls return or raise where they are asked, at most once each; without threads they do not run before."""
    ran = list[int]()

    def square(number: int) -> int:
        ran.append(number)
        if number < 0:
            raise ValueError(number)
        return number * number

    for jobs in (1, 2):
        ran.clear()
        with Workers(jobs) as workers:
            calls = [workers.call(square, n) for n in (1, 2, -3, 4)]
            assert jobs > 1 or not ran
            assert [call() for call in (calls[3], calls[0], calls[0])] == [16, 1, 1]
            with pytest.raises(ValueError, match="-3"):
                calls[2]()
            assert calls[1]() == 4
        assert sorted(ran) == [-3, 1, 2, 4]


def test_calls_stop_when_their_context_has_ended() -> None:
    """A long call stops at its next part, and one that has not begun never does."""
    begun, stopped = threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        try:
            while True:
                workers.proceed()
        finally:
            stopped.set()

    with Workers(2) as workers:
        calls = [workers.call(long) for _ in range(2)]
        waiting = workers.call(stopped.clear)
        assert begun.wait(60)
    assert stopped.is_set()
    for call, error in ((waiting, CancelledError), (calls[0], Stopped)):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_command_ends_as_ever(
    jobs: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while rivals are prepared: one word and code 130."""
    prepared = Alternative._prepared

    def interrupted(self: Alternative, spills: bool, solves: bool) -> Prepared:
        os.kill(os.getpid(), signal.SIGINT)
        return prepared(self, spills, solves)

    monkeypatch.setattr(Alternative, "_prepared", interrupted)
    words = ("compile", "-t", str(case_dir("simple_mlp", models_root)), "-o", str(tmp_path / "out"), "--jobs", jobs)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what runs behind
    try:
        assert deployer(*words) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


def test_jobs_without_effect_are_refused(models_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = str(case_dir("simple_mlp", models_root))
    assert deployer("train", "-t", case, "--skipgen", "--jobs", "2") == 2
    assert "--jobs has no effect here" in capsys.readouterr().err
    assert deployer("compile", "-t", case, "--from", "tiling.json", "--jobs", "2") == 2
    assert "--jobs has no effect here" in capsys.readouterr().err
    assert deployer("compile", "-t", case, "--jobs", "0") == 2


def test_collections_are_as_before() -> None:
    """They are rare while planning alone, also where it ends by an error."""
    before, during = gc.get_threshold(), []

    @gc_paused()
    def plan() -> None:
        during.append(gc.get_threshold())
        raise DeployerError("no plan")

    with pytest.raises(DeployerError):
        plan()
    assert gc.get_threshold() == before
    assert all(new > old for new, old in zip(during[0], before, strict=True))
