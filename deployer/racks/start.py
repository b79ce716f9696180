"""Start of a rack: build of its code, the machine, and the launch by size."""

from dataclasses import dataclass
from pathlib import Path

from deployer.core.target import Target
from deployer.racks import launch
from deployer.racks.device_code import DeviceCode, assemble, build_ptx
from deployer.racks.driver import Driver, DriverMachine
from deployer.racks.emulation import EmulatedMachine, build_emulation
from deployer.racks.library import RackLibrary
from deployer.racks.rack import Rack
from deployer.racks.rules import RackRules, rack_rules


@dataclass(frozen=True)
class BuiltRack:
    """Code of a library for racks of any number of devices: of a GPU, or a program that emulates one."""

    library: RackLibrary
    rules: RackRules
    device_per_lane: bool
    code: DeviceCode | Path

    def start(self, devices: int, lanes: int = 0) -> Rack:
        """Start a rack of so many devices with so many lanes of a group, 0 to choose them by size.

        RunFailed where the machine rounds in another way, OptionProblem for too many lanes.
        """
        size, per_lane, rules = self.library.struct_bytes, self.device_per_lane, self.rules
        if isinstance(self.code, Path):
            emulated, usual = EmulatedMachine(self.code, rules), rules.emulation.lanes
            chosen = launch.launch_of(size, per_lane, 1, emulated.limits, rules.launch, lanes or usual)
            return Rack(self.library, emulated, chosen, devices, usual)
        driver = Driver(rules.driver)
        entry = launch.launch_of(size, per_lane, 1, driver.limits, rules.launch).entry
        registers = self.code.resources[entry].registers
        chosen = launch.launch_of(size, per_lane, registers, driver.limits, rules.launch, lanes)
        machine = DriverMachine(driver, self.code, rules.driver)
        return Rack(self.library, machine, chosen, devices, rules.launch.alone_lanes)


def build_rack(
    folder: Path, target: Target, device_per_lane: bool, place: Path, emulate: bool = False, races: bool = False
) -> BuiltRack:
    """Build the code of the library in a folder, in `place`.

    With `emulate` threads of this machine are the lanes, with `races` under a sanitizer. ToolMissing without tools,
    driver or GPU; ToolFailed where a build fails; OptionProblem for a target that is no rack.
    """
    rules, library = rack_rules(target), RackLibrary(folder)
    if emulate:
        program = build_emulation(library, rules, device_per_lane, place, races)
        return BuiltRack(library, rules, device_per_lane, program)
    driver = Driver(rules.driver)
    architecture = driver.architecture
    driver.release()
    code = assemble(build_ptx(library, rules, device_per_lane, place), rules, architecture, place / "rack.cubin")
    return BuiltRack(library, rules, device_per_lane, code)


def start_rack(folder: Path, target: Target, devices: int, place: Path, lanes: int = 0, emulate: bool = False) -> Rack:
    """Build the code of the library in a folder, and start a rack of so many devices, each as its size suits.

    Raises as `build_rack` and `BuiltRack.start`.
    """
    per_lane = launch.is_device_per_lane(RackLibrary(folder).struct_bytes, devices, rack_rules(target).launch)
    return build_rack(folder, target, per_lane, place, emulate).start(devices, lanes)
