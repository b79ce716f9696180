"""Sizes of launches."""

import pytest

from deployer.core.errors import OptionProblem
from deployer.racks.launch import MachineLimits, is_device_per_lane, launch_of, most_lanes
from DeployTest.targets.cuda.racks import RULES

pytestmark = [pytest.mark.host]
LIMITS = MachineLimits("a machine", 1 << 34, 99 << 10)


@pytest.mark.parametrize(
    ("registers", "most"), [(1, 1024), (64, 1024), (65, 896), (128, 512), (129, 480), (255, 256), (168, 384)]
)
def test_registers_bound_a_group(registers: int, most: int) -> None:
    """The lanes of a group are whole warps, whose registers in steps of 8 are 65536 at most."""
    assert most_lanes(registers, RULES.launch) == most


def test_lanes_by_size() -> None:
    """Larger structs have more lanes, up to what registers allow; a lane is a device only for many small ones."""
    lanes = [launch_of(size, False, 128, LIMITS, RULES.launch).lanes for size in (5092, 27228, 234776, 10**6)]
    assert lanes == [32, 128, 512, 512]
    assert launch_of(10**6, False, 255, LIMITS, RULES.launch).lanes == 256
    assert is_device_per_lane(5092, 8448, RULES.launch)
    assert not is_device_per_lane(5092, 1056, RULES.launch)
    assert not is_device_per_lane(27228, 8448, RULES.launch)


def test_place_and_groups() -> None:
    """A struct lies in scratch memory where it fits; groups are devices, or hold some each."""
    shared = launch_of(99 << 10, False, 32, LIMITS, RULES.launch, 64)
    assert (shared.scratch, shared.entry, shared.groups(5)) == (99 << 10, "train_shared", 5)
    main = launch_of((99 << 10) + 4, False, 32, LIMITS, RULES.launch, 64)
    assert (main.scratch, main.entry) == (0, "train")
    lanes = launch_of(5092, True, 32, LIMITS, RULES.launch)
    assert (lanes.scratch, lanes.entry, lanes.groups(33)) == (0, "train", 2)


def test_too_many_lanes() -> None:
    """More lanes than registers are enough for are refused with the largest number."""
    with pytest.raises(OptionProblem, match="--lanes 320"):
        launch_of(5092, False, 200, LIMITS, RULES.launch, 512)
