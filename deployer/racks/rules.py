"""Build and launch rules of a target that is a rack of simulated devices, from `rack.toml` in its folder."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deployer.core import target as targets
from deployer.core.errors import OptionProblem
from deployer.core.files.reading import own_toml
from deployer.core.target import Target


@dataclass(frozen=True)
class DeviceRules:
    """Commands and flags that make device code.

    `c_flags` compile C to bitcode, `entry_flags` the entries with it to PTX; both follow `flags`, and all know
    `{architecture}`. The assembler makes code of one machine's architecture of it.
    """

    compiler: tuple[str, ...]
    compiler_env: str
    flags: tuple[str, ...]
    c_flags: tuple[str, ...]
    entry_flags: tuple[str, ...]
    architecture: str
    assembler: tuple[str, ...]
    assembler_env: str
    assembler_package: str
    assembler_flags: tuple[str, ...]


@dataclass(frozen=True)
class LaunchRules:
    """Numbers by which the size of a launch is chosen; `registers` are those of a group, bytes those of a struct."""

    warp: int
    most_lanes: int
    registers: int
    register_step: int
    words_per_lane: int
    least_lanes: int
    usual_most_lanes: int
    lane_bytes: int
    lane_devices: int
    alone_lanes: int


@dataclass(frozen=True)
class EmulationRules:
    """Flags of the emulation by threads; `lanes` of a device, `scratch` bytes of a group's own memory."""

    flags: tuple[str, ...]
    optional: tuple[str, ...]
    race_flags: tuple[str, ...]
    link: tuple[str, ...]
    lanes: int
    scratch: int


@dataclass(frozen=True)
class DriverRules:
    """The machine's driver: its shared library, and bytes of a lane's stack beside the frames that are known."""

    library: str
    stack: int


@dataclass(frozen=True)
class RackRules:
    """All rules of a target, and the folder of its C."""

    folder: Path
    device: DeviceRules
    launch: LaunchRules
    emulation: EmulationRules
    driver: DriverRules


def rack_names() -> list[str]:
    """The names of all targets that are racks."""
    return [name for name in targets.names() if targets.rack_file(name).is_file()]


def rack_rules(target: Target) -> RackRules:
    """The rules of a target; OptionProblem where it is no rack."""
    path = targets.rack_file(target.name)
    if not path.is_file():
        raise OptionProblem(f"target {target.name!r} is no rack of devices", hint=f"-p {' | '.join(rack_names())}")
    return _read(path)


@cache
def _read(path: Path) -> RackRules:
    read = own_toml(path)
    return RackRules(
        path.parent,
        DeviceRules(**_frozen(read["device"])),
        LaunchRules(**_frozen(read["launch"])),
        EmulationRules(**_frozen(read["emulation"])),
        DriverRules(**_frozen(read["driver"])),
    )


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
