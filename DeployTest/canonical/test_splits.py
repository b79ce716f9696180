"""Gradients in canonical order: the bits of an update do not depend on how its samples are split into passes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.plan import Options
from deployer.training.train_graph import build_train_graph
from DeployTest.canonical.nets import NEGATED, NETS, samples
from DeployTest.support.building.cases import Built, compile_case, faults

pytestmark = [pytest.mark.host, pytest.mark.training]

UPDATES = 2
EIGHT, SIX = ((1, 8), (2, 4), (4, 2), (8, 1)), ((1, 6), (2, 3), (3, 2), (6, 1))


def built(name: str, split: tuple[int, int], folder: Path, optimizer: str = "adamw", **options: Any) -> Built:
    """The net that is trained by passes of so many samples, so many for each update."""
    batch, passes = split
    settings = options.pop("settings", {})
    net, count = NETS[name][0], batch * passes * options.pop("updates", UPDATES)
    model = net(batch).save(folder / "model.onnx")
    words: dict[str, Any] = {"data": samples(name, count), "n_accum": passes, "mean": passes > 1, "settings": settings}
    report = build_train_graph(model, "cross_entropy", optimizer, 0.05, "", folder, **words)
    case = pipeline.load_training(report.train)
    return compile_case(case, folder / "c", options.pop("strategy", "auto"), options.pop("l1", 60_000), **options)


def state(program: Built, *flags: str) -> dict[str, bytes]:
    """The bits of all weights and states of the optimizer, and of accumulators that outlive a pass."""
    outcome = program.run(*flags)
    assert not faults(program, outcome)
    arrays = outcome.arrays | outcome.accumulators
    return {name: array.tobytes() for name, array in arrays.items()}


def check_equal(first: dict[str, bytes], other: dict[str, bytes]) -> None:
    """Tensors that both programs have are the same; all weights are."""
    assert len(first.keys() & other.keys()) >= 2
    assert [name for name in sorted(first.keys() & other.keys()) if first[name] != other[name]] == []


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    ("name", "splits"),
    [("dense", SIX), ("tied", SIX), *((name, EIGHT) for name in sorted(NETS))],
    ids=lambda x: x if isinstance(x, str) else f"{x[-1][0]}",
)
def test_splits_have_the_same_bits(name: str, splits: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    """Passes of one sample, as they are without the option, and of several samples make the same update."""
    first = state(built(name, splits[0], tmp_path / "plain"))
    for split in splits[1:]:
        folder = tmp_path / f"{split[0]}x{split[1]}"
        check_equal(first, state(built(name, split, folder, canonical_batch=True)))


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("splits", [EIGHT, SIX], ids=["eight", "six"])
def test_ignored_labels(splits: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    """Labels that do not count change the mean of an update, and not its splits."""
    ignoring: dict[str, Any] = {"settings": {"ignore-index": 1}, "canonical_batch": True}
    first, *others = (state(built("tied", s, tmp_path / str(s[0]), **ignoring)) for s in (*splits[:2], splits[3]))
    for other in others:
        check_equal(first, other)


def test_one_sample_needs_no_order(tmp_path: Path) -> None:
    """Passes of one sample have the same program with the option."""
    plain, canonical = (built("dense", EIGHT[0], tmp_path / str(on), canonical_batch=on) for on in (False, True))
    assert plain.plan.steps == canonical.plan.steps


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", ["convolutional", "recurrent"])
def test_bits_depend_on_the_split_without_it(name: str, tmp_path: Path) -> None:
    """Without the option the splits differ, so that the test above can fail."""
    states = [state(built(name, split, tmp_path / str(split[0]))) for split in EIGHT[:1] + EIGHT[2:3]]
    assert any(states[0][name] != states[1][name] for name in states[0].keys() & states[1].keys())


PLANS: dict[str, dict[str, Any]] = {
    "double": {"strategy": "double", "l1": 16_000},
    "fused update": {"joint": True},
}
MORE_PLANS: dict[str, dict[str, Any]] = {
    "no rewrites": {"allow_rewrites": False},
    "one core": {"strategy": "single", "l1": 16_000, "cores": 1},
    "spilled": {"l1": 12_000, "l2": 40_000, "outermost": "L3"},
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    "options",
    [
        *(pytest.param(options, id=name) for name, options in PLANS.items()),
        *(pytest.param(options, id=name, marks=pytest.mark.slow) for name, options in MORE_PLANS.items()),
    ],
)
def test_plans_have_the_same_bits(options: dict[str, Any], tmp_path: Path) -> None:
    """Tiles, buffering, levels and rewrites change no bit of a convolutional net in canonical order."""
    split = EIGHT[3] if "joint" in options else EIGHT[2]
    plain = state(built("convolutional", split, tmp_path / "plain", canonical_batch=True))
    check_equal(plain, state(built("convolutional", split, tmp_path / "other", canonical_batch=True, **options)))


@pytest.mark.slow
def test_one_level_has_the_same_bits(tmp_path: Path) -> None:
    """A target without tiles runs the same steps on parts of its operands where they lie."""
    program = built("convolutional", EIGHT[2], tmp_path / "host", canonical_batch=True)
    options = Options("host_flat", canonical_batch=True)
    tiling, plan = pipeline.plan_case(program.case, options)
    pipeline.write_case(program.case, tiling, plan, tmp_path / "flat")
    pipeline.build_case(plan, tmp_path / "flat")
    check_equal(state(program), state(Built(program.case, tiling, plan, tmp_path / "flat")))


def test_it_is_part_of_the_plan(tmp_path: Path) -> None:
    """A plan records the option, and its digest says so; without it the plan is as it was."""
    plain, canonical = (built("dense", (2, 4), tmp_path / str(on), canonical_batch=on) for on in (False, True))
    assert plain.plan.digest != canonical.plan.digest
    assert canonical.plan.options.canonical_batch
    assert '"canonical_batch":true' in (tmp_path / "True" / "c" / "plan.json").read_text().replace(" ", "")
    assert "canonical_batch" not in (tmp_path / "False" / "c" / "plan.json").read_text()


def test_zeros_keep_their_sign(tmp_path: Path) -> None:
    """A gradient that is -0 for all samples is -0 in the accumulator, as with passes of one sample."""
    words: dict[str, Any] = {"updates": 1, "canonical_batch": True}
    programs = [built(NEGATED, split, tmp_path / str(split[0]), "sgd", **words) for split in EIGHT[:3]]
    first, *others = (program.run().accumulators for program in programs)
    assert any(np.signbit(array).all() and not array.any() for array in first.values())
    for other in others:
        assert {name: array.tobytes() for name, array in other.items()} == {n: a.tobytes() for n, a in first.items()}
