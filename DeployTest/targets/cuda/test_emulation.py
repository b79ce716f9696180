"""Racks emulated by threads have the bits of the library on this machine, without races, and stop where it does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, OptionProblem, RunFailed
from deployer.racks.library import RackLibrary
from DeployTest.firmware import nets
from DeployTest.firmware.bindings.modules import module_of
from DeployTest.targets.cuda import racks
from DeployTest.targets.cuda.racks import Trained, Trial

pytestmark = [pytest.mark.host, pytest.mark.training]
MODELS = ("simple_mlp", "digits", "autoencoder")
SLOW = ("dscnn", "resnet8")
Made = Callable[[str], tuple[Trial, Trained]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Makes a trial of a model with what the library gives on this machine, once."""
    root, known = tmp_path_factory.mktemp("racks"), dict[str, tuple[Trial, Trained]]()

    def make(model: str) -> tuple[Trial, Trained]:
        if model not in known:
            trial = racks.trial_of(model, root)
            known[model] = trial, racks.on_host(trial)
        return known[model]

    return make


@pytest.fixture(scope="module")
def normed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, Trained]:
    """A net with a norm, dropout, two groups of rates and two passes per update."""
    root = tmp_path_factory.mktemp("normed")
    module = module_of("net", nets.normed_case(root / "case"), root / "library", "-p", racks.TARGET.name)
    trial = racks.trial_of_library(root / "library", module)
    return trial, racks.on_host(trial)


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("lanes", [5, 1])
@pytest.mark.parametrize("model", [*MODELS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_lanes_share_a_device(model: str, lanes: int, made: Made, tmp_path: Path) -> None:
    """Each device of a rack, with its own samples and rate, has the losses, digest and weights of the library alone."""
    trial, expected = made(model)
    assert len({*expected.digests}) == racks.DEVICES
    racks.assert_same(racks.on_rack(racks.emulated(trial, tmp_path, lanes), trial), expected)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("model", MODELS)
def test_lane_is_a_device(model: str, made: Made, tmp_path: Path) -> None:
    """The same where a lane is a device, with fewer devices than lanes in the last group."""
    trial, expected = made(model)
    racks.assert_same(racks.on_rack(racks.emulated(trial, tmp_path, 2, per_lane=True), trial), expected)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("per_lane", [False, True])
def test_accumulation_norm_and_dropout(per_lane: bool, normed: tuple[Trial, Trained], tmp_path: Path) -> None:
    """The same with passes that add up, statistics, draws of a dropout, and rates by groups."""
    trial, expected = normed
    assert RackLibrary(trial.folder).accumulate == 2
    racks.assert_same(racks.on_rack(racks.emulated(trial, tmp_path, 3, per_lane), trial), expected)


@pytest.mark.skipif(bool(racks.without_sanitizer()), reason=racks.without_sanitizer())
@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("model", MODELS)
def test_no_races(model: str, made: Made, tmp_path: Path) -> None:
    """The thread sanitizer sees no race between the lanes of a device, and digests are the same."""
    trial, expected = made(model)
    racks.assert_same(racks.on_rack(racks.emulated(trial, tmp_path, 4, races=True), trial), expected)


@pytest.mark.skipif(bool(racks.without_sanitizer()), reason=racks.without_sanitizer())
@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("model", ["digits", "simple_mlp", "autoencoder"])
def test_races_are_seen(model: str, made: Made, tmp_path: Path) -> None:
    """Lanes that do not meet behind kernels are a race that the sanitizer reports."""
    trial, _ = made(model)
    trial = racks.without_joins(trial, tmp_path / "library")
    rack = racks.emulated(trial, tmp_path / "code", 4, races=True)
    rack.give_samples(trial.samples)
    rack.train(trial.order)
    with pytest.raises(RunFailed, match="data race"):
        rack.close()


def test_scratch_memory_is_optional(made: Made, tmp_path: Path) -> None:
    """A struct too large for a group's own memory stays in the machine's, with the same bits."""
    trial, expected = made("digits")
    rules = replace(racks.RULES, emulation=replace(racks.RULES.emulation, scratch=1024))
    rack = racks.emulated(trial, tmp_path, 3, rules=rules)
    assert (rack.launch.scratch, rack.launch.entry) == (0, "train")
    racks.assert_same(racks.on_rack(rack, trial), expected)


def test_a_device_stops_alone(made: Made, tmp_path: Path) -> None:
    """A device whose label is no class makes no more passes; the others go on, and the first state is the library's."""
    trial, expected = made("simple_mlp")
    samples = {name: array.copy() for name, array in trial.samples.items()}
    bad = {name: np.concatenate([array, array[:1]]) for name, array in samples.items()}
    bad["labels"][-1] = 1000
    order = trial.order.copy()
    order[1, 2] = len(bad["labels"]) - 1
    rack = racks.emulated(trial, tmp_path, 4)
    rack.give_samples(bad)
    rack.set_rates(trial.rates)
    losses, digests = rack.train(order), rack.digests().tolist()
    assert [rack.library.statuses[status][0] for status in rack.statuses] == ["OK", "ERROR_INPUT", "OK"]
    assert np.isnan(losses[1, 2:]).all()
    assert losses[1, :2].tobytes() == expected.losses[1, :2].tobytes()
    assert [digests[0], digests[2]] == [expected.digests[0], expected.digests[2]]
    with pytest.raises(RunFailed, match="ERROR_INPUT"):
        rack.set_rates(0.1)
    rack.close()


def test_states_move_between_devices(made: Made, tmp_path: Path) -> None:
    """Images of a rack are those of the library: each device goes on from what another one had."""
    trial, expected = made("simple_mlp")
    rack = racks.emulated(trial, tmp_path, 2)
    rack.give_samples(trial.samples)
    rack.set_rates(trial.rates)
    rack.train(trial.order)
    states = rack.states()
    with trial.module.Model() as model:
        model.load(states[2])
        assert int(model.digest(), 16) == expected.digests[2]
    rack.load(states[1:] + states[:1])
    assert rack.digests().tolist() == expected.digests[1:] + expected.digests[:1]
    rack.load(states[0])
    assert rack.digests().tolist() == [expected.digests[0]] * racks.DEVICES
    damaged = bytes([*states[0][:-1], states[0][-1] ^ 1])
    with pytest.raises(RunFailed, match="ERROR_DAMAGED"):
        rack.load(damaged)
    rack.close()


def test_refusals(made: Made, tmp_path: Path) -> None:
    """Other inputs, shapes, unknown samples, a wrong number of images: each says what is expected."""
    trial, _ = made("simple_mlp")
    rack = racks.emulated(trial, tmp_path, 1)
    with pytest.raises(DatasetMismatch, match="give_samples"):
        rack.train(trial.order)
    with pytest.raises(DatasetMismatch, match="inputs of the library"):
        rack.give_samples({"input": trial.samples["input"]})
    with pytest.raises(DatasetMismatch, match="float32"):
        rack.give_samples({**trial.samples, "input": trial.samples["input"].astype(np.float64)})
    rack.give_samples(trial.samples)
    with pytest.raises(DatasetMismatch, match="does not have"):
        rack.train(np.full((racks.DEVICES, 1), racks.SAMPLES))
    with pytest.raises(DatasetMismatch, match="an image for each device"):
        rack.load([b"a", b"b"])
    rack.close()


def test_libraries_without_training(tmp_path: Path, made: Made) -> None:
    """A manifest of a library that only predicts, or that has a ring of latents, is refused."""
    trial, _ = made("simple_mlp")
    text = (trial.folder / "manifest.json").read_text()
    for change, cause in ((("accumulate", "other"), "only predicts"), (('"inputs"', '"replay": {}, "inputs"'), "ring")):
        (tmp_path / "manifest.json").write_text(text.replace(*change, 1))
        with pytest.raises(OptionProblem, match=cause):
            RackLibrary(tmp_path)


def test_a_dead_emulation_is_an_error(made: Made, tmp_path: Path) -> None:
    """An unknown command ends the program, and the next call says so."""
    trial, _ = made("simple_mlp")
    rack: Any = racks.emulated(trial, tmp_path, 1)
    rack.machine._send(b"?")
    with pytest.raises(RunFailed, match="ended with 1"):
        rack.digests()
