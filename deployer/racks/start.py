"""Start of a rack: build of its code, the machine, and the launch by size."""

from pathlib import Path

from deployer.core.target import Target
from deployer.racks import launch
from deployer.racks.device_code import DeviceCode, assemble, build_ptx
from deployer.racks.driver import Driver, DriverMachine
from deployer.racks.emulation import EmulatedMachine, build_emulation
from deployer.racks.launch import Launch
from deployer.racks.library import RackLibrary
from deployer.racks.rack import Rack
from deployer.racks.rules import rack_rules


def start_rack(
    folder: Path, target: Target, devices: int, place: Path, lanes: int = 0, emulate: bool = False, races: bool = False
) -> Rack:
    """Start a rack of so many devices of the library in a folder; its code is built in `place`.

    `lanes` is the number of lanes of a group, 0 to choose it by size. With `emulate` threads of this machine are the
    lanes, with `races` under a sanitizer. ToolMissing without tools, driver or GPU; ToolFailed where a build fails;
    RunFailed where the machine rounds in another way; OptionProblem for a target that is no rack, or too many lanes.
    """
    rules, library = rack_rules(target), RackLibrary(folder)
    per_lane = launch.is_device_per_lane(library.struct_bytes, devices, rules.launch)
    alone = rules.launch.alone_lanes
    if emulate:
        emulated = EmulatedMachine(build_emulation(library, rules, per_lane, place, races), rules)
        count = lanes or rules.emulation.lanes
        chosen = launch.launch_of(library.struct_bytes, per_lane, 1, emulated.limits, rules.launch, count)
        return Rack(library, emulated, chosen, devices, rules.emulation.lanes)
    driver = Driver(rules.driver)
    code = assemble(build_ptx(library, rules, per_lane, place), rules, driver.architecture, place / "rack.cubin")
    limits = driver.limits
    chosen = launch.launch_of(library.struct_bytes, per_lane, 1, limits, rules.launch, lanes)
    chosen = launch.launch_of(library.struct_bytes, per_lane, _registers(code, chosen), limits, rules.launch, lanes)
    return Rack(library, DriverMachine(driver, code, rules.driver), chosen, devices, alone)


def _registers(code: DeviceCode, chosen: Launch) -> int:
    """The registers of the entry that the launch runs."""
    return code.resources[chosen.entry].registers
