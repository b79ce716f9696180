"""Mean and deviation of channels: the mean is off by its own rounding alone, whatever the deviation and the tiles."""

from collections.abc import Mapping

import numpy as np
import pytest

from deployer.core.operator import Array, registry
from deployer.core.samples import Sample
from deployer.testing.bench import bits, lawful, run_step, step_of
from DeployTest.support.tolerances import assert_close

pytestmark = pytest.mark.host
SHAPES = ((1, 8, 64), (3, 4, 7), (97, 4), (2, 4, 31, 9), (1, 2, 9216))


def moments(x: Array, tile: Mapping[str, int] | None = None) -> list[Array]:
    """Mean, inverse deviation and rest per channel, by tiles of at most these lengths."""
    step = step_of(registry()["ChannelMoments"], Sample("moments", (x,), {}, 3))
    sizes = {name: min(size, (tile or {}).get(name, size)) for name, size in step.access.sizes.items()}
    return run_step(step, lawful(step.access, sizes))[:3]


def drawn(shape: tuple[int, ...], mean: float) -> Array:
    """Numbers of deviation 1 about a mean."""
    return np.float32(mean) + np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("mean", [10.0, -100.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_mean_is_rounded_once(shape: tuple[int, ...], mean: float) -> None:
    """It is one of the two floats beside the exact mean."""
    x = drawn(shape, mean)
    exact = x.astype(np.float64).mean((0, *range(2, x.ndim)))
    assert np.all(np.abs(moments(x)[0] - exact) < np.abs(np.spacing(exact.astype(np.float32))))


@pytest.mark.parametrize("mean", [1013.0, -100.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_rest_is_what_the_mean_lacks(shape: tuple[int, ...], mean: float) -> None:
    """In units of the deviation; with it the mean has at least three bits more than a float."""
    x = drawn(shape, mean)
    exact = x.astype(np.float64).mean((0, *range(2, x.ndim)))
    found, inv_std, rest = (values.astype(np.float64) for values in moments(x))
    eighth = np.abs(np.spacing(exact.astype(np.float32))) / 8
    assert np.all(np.abs(found - rest / inv_std - exact) < eighth)
    assert np.any(np.abs(found - exact) > eighth)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_deviation_is_about_the_exact_mean(shape: tuple[int, ...]) -> None:
    """The deviation is exact even if numbers are a few float steps apart and the rounded mean is off their middle."""
    x = (np.float32(1e4) + np.float32(0.003) * drawn(shape, 0.0)).astype(np.float32)
    wide = x.astype(np.float64)
    inv_std = moments(x)[1].astype(np.float64)
    right = 1 / np.sqrt(wide.var((0, *range(2, x.ndim))) + float(np.float32(1e-5)))
    assert_close("ChannelMoments", inv_std.astype(np.float32), right.astype(np.float32))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_constant_channel(shape: tuple[int, ...]) -> None:
    """Its mean is the constant, and its deviation 0."""
    values = np.float32([0.1, -3.3e7, 1e-30, 7.7, 1.1, 1e30, -0.7, 3.0])[: shape[1]]
    x = np.broadcast_to(values.reshape(-1, *[1] * (len(shape) - 2)), shape).astype(np.float32)
    mean, inv_std, rest = moments(x)
    assert bits(mean) == bits(values)
    assert not rest.any()
    assert len(set(inv_std)) == 1


@pytest.mark.parametrize("tile", [{"phase": 1}, {"phase": 1, "n": 1, "s": 5}, {"phase": 1, "n": 2}, {"c": 1}], ids=str)
@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
def test_tiles_leave_the_bits(shape: tuple[int, ...], tile: Mapping[str, int]) -> None:
    """Tiles change no bit: the first phase carries the first element between tiles, the second the mean."""
    x = drawn(shape, 100.0)
    assert [bits(y) for y in moments(x, tile)] == [bits(y) for y in moments(x)]


@pytest.mark.parametrize("place", [0, 5])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_the_mean_of_infinity(value: float, place: int) -> None:
    """An infinite element makes the mean infinite, the first one as any other."""
    x = drawn((1, 2, 70), 0.0)
    x[0, 1, place] = value
    mean, inv_std, _ = moments(x)
    assert np.isfinite([mean[0], inv_std[0]]).all()
    assert mean[1] == value
    assert np.isnan(inv_std[1])
