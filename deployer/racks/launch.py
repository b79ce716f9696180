"""Sizes of launches: what a device is on the machine, how many lanes share it, and where its struct lies."""

from dataclasses import dataclass

from deployer.core.errors import OptionProblem
from deployer.racks.rules import LaunchRules

WORD = 4
"""Bytes of a word of a struct."""


@dataclass(frozen=True)
class MachineLimits:
    """The machine: its name, bytes of all memory, and bytes of scratch memory that a group may have."""

    name: str
    memory: int
    scratch: int


@dataclass(frozen=True)
class Launch:
    """Passes of a rack: whether each lane is a device, the lanes of a group, and bytes of its struct in scratch."""

    device_per_lane: bool
    lanes: int
    scratch: int

    def groups(self, devices: int) -> int:
        """Number of groups for so many devices."""
        return -(-devices // self.lanes) if self.device_per_lane else devices

    @property
    def entry(self) -> str:
        """Name of the entry that makes passes."""
        return "train_shared" if self.scratch else "train"

    def __str__(self) -> str:
        """A line for a person."""
        if self.device_per_lane:
            return f"a lane is a device, {self.lanes} in a group"
        return f"{self.lanes} lanes are a device, its struct in {'scratch' if self.scratch else 'main'} memory"


def is_device_per_lane(struct_bytes: int, devices: int, rules: LaunchRules) -> bool:
    """Whether each lane is a device: for many devices of few bytes."""
    return struct_bytes <= rules.lane_bytes and devices >= rules.lane_devices


def most_lanes(registers: int, rules: LaunchRules) -> int:
    """The largest group whose lanes have so many registers each."""
    each = -(-max(registers, 1) // rules.register_step) * rules.register_step
    return min(rules.most_lanes, rules.registers // (each * rules.warp) * rules.warp)


def launch_of(
    struct_bytes: int, device_per_lane: bool, registers: int, limits: MachineLimits, rules: LaunchRules, lanes: int = 0
) -> Launch:
    """The launch of passes; `lanes` is a number to take if it is not 0.

    OptionProblem where so many lanes are more than the registers of a group are enough for.
    """
    most = most_lanes(registers, rules)
    if lanes > most:
        facts = [("registers", f"{registers} of each lane, {rules.registers} of a group")]
        raise OptionProblem(f"{lanes} lanes do not fit a group of {limits.name}", facts, f"--lanes {most}, or fewer")
    scratch = struct_bytes if struct_bytes <= limits.scratch and not device_per_lane else 0
    return Launch(device_per_lane, lanes or min(most, _usual(struct_bytes, device_per_lane, rules)), scratch)


def _usual(struct_bytes: int, device_per_lane: bool, rules: LaunchRules) -> int:
    """The number of lanes by size: a power of two."""
    if device_per_lane:
        return rules.alone_lanes
    wanted = struct_bytes // WORD // rules.words_per_lane
    power = 1 << max(wanted.bit_length() - 1, 0)
    return min(max(power, rules.least_lanes), rules.usual_most_lanes)
