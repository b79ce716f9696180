"""The driver's functions: over a stub of the driver in C, and on a GPU where there is one."""

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.core.errors import MachineTooSmall, RunFailed, ToolMissing
from deployer.racks import start
from deployer.racks.device_code import DeviceCode, Resources, write_glue
from deployer.racks.driver import Driver, DriverMachine
from deployer.racks.launch import launch_of
from deployer.racks.library import RackLibrary
from deployer.racks.rack import Rack
from deployer.racks.rules import DriverRules
from DeployTest.targets.cuda import racks
from DeployTest.targets.cuda.racks import RULES, TARGET, Trained, Trial

pytestmark = [pytest.mark.host, pytest.mark.training]
STUB = Path(__file__).with_name("driver_stub.c")


def no_gpu() -> str:
    """Why there is no GPU here; empty where there is one."""
    try:
        Driver(RULES.driver).release()
    except ToolMissing as error:
        return error.cause
    return ""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, Trained]:
    """A trial of the digits net, and what the library gives on this machine."""
    made = racks.trial_of("digits", tmp_path_factory.mktemp("driver"))
    return made, racks.on_host(made)


@pytest.fixture(scope="module")
def rules(trial: tuple[Trial, Trained], tmp_path_factory: pytest.TempPathFactory) -> DriverRules:
    """The rules of a driver that is the stub, with the code of the trial's library in it."""
    folder, library = tmp_path_factory.mktemp("stub"), RackLibrary(trial[0].folder)
    hal = RULES.folder
    words = ["gcc", *RULES.emulation.flags, "-fPIC", "-shared", "-fvisibility=default", "-include", str(hal / "hal.h")]
    words += [*write_glue(library, folder), f"-I{hal}", f"-I{hal / 'emulated'}"]
    sources = [hal / "rack.c", *library.sources, STUB]
    subprocess.run([*words, *map(str, sources), *RULES.emulation.link, "-o", str(folder / "stub.so")], check=True)
    return replace(RULES.driver, library=str(folder / "stub.so"))


@pytest.fixture
def code(tmp_path: Path) -> DeviceCode:
    """Code that the stub takes for some."""
    cubin = tmp_path / "rack.cubin"
    cubin.write_bytes(b"\x7fELF, and more")
    return DeviceCode(cubin, "sm_80", {"train_shared": Resources(40, 512)})


Racked = Callable[[int], Rack]


@pytest.fixture
def racked(trial: tuple[Trial, Trained], rules: DriverRules, code: DeviceCode) -> Racked:
    """Makes a rack over the stub with so many lanes of a device."""

    def make(lanes: int) -> Rack:
        driver = Driver(rules)
        assert (driver.architecture, driver.limits.name, driver.limits.scratch) == ("sm_80", "a stub", 166912)
        library = RackLibrary(trial[0].folder)
        launch = launch_of(library.struct_bytes, False, 40, driver.limits, RULES.launch, lanes)
        return Rack(library, DriverMachine(driver, code, rules), launch, racks.DEVICES, 32)

    return make


def test_bits_over_the_stub(trial: tuple[Trial, Trained], racked: Racked) -> None:
    """A rack that calls the driver's functions has the bits of the library."""
    racks.assert_same(racks.on_rack(racked(8), trial[0]), trial[1])


def test_memory_is_given_back(trial: tuple[Trial, Trained], racked: Racked) -> None:
    """A closed rack has freed all of its memory, which the stub checks when the device is released."""
    rack = racked(1)
    rack.give_samples(trial[0].samples)
    rack.give_samples(trial[0].samples)
    rack.close()


def test_too_little_memory(racked: Racked) -> None:
    """Memory beyond the machine's is refused with its size."""
    rack = racked(1)
    with pytest.raises(MachineTooSmall, match="1073741824"):
        rack.machine.allocate(1 << 40)
    rack.close()


def test_foreign_code(trial: tuple[Trial, Trained], rules: DriverRules, code: DeviceCode) -> None:
    """Code that the driver refuses is an error with its text."""
    code.cubin.write_bytes(b"something else")
    driver = Driver(rules)
    with pytest.raises(RunFailed, match="cuModuleLoadData"):
        DriverMachine(driver, code, rules)


def test_no_device(rules: DriverRules, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver without a GPU is an error that names the emulation."""
    monkeypatch.setenv("STUB_INIT", "100")
    with pytest.raises(ToolMissing, match=r"no GPU(?s:.)*no device is detected(?s:.)*--emulate"):
        Driver(rules)


def test_no_driver() -> None:
    """A machine without a driver is an error that names the emulation."""
    with pytest.raises(ToolMissing, match=r"no NVIDIA driver(?s:.)*--emulate"):
        Driver(DriverRules("libcuda-that-is-nowhere.so.1", 0))


def test_call_has_the_layout_of_c(tmp_path: Path) -> None:
    """The arguments of an entry are as many bytes as the struct has in C, each at its place."""
    from deployer.racks.machine import RackCall

    names = list(RackCall.__dataclass_fields__)
    prints = "".join(f'printf("%zu ", offsetof(rack_call_t, {name}));' for name in names)
    source = tmp_path / "layout.c"
    text = f'#include "rack.h"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{ {prints} return 0; }}\n'
    source.write_text(text)
    subprocess.run(["gcc", f"-I{RULES.folder}", str(source), "-o", str(tmp_path / "layout")], check=True)
    said = subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True).stdout
    places = dict(zip(names, map(int, said.split()), strict=True))
    for name in names:
        packed = RackCall(**{name: 1}).packed()
        assert [i for i, byte in enumerate(packed) if byte] == [places[name]]
    assert ctypes.sizeof(ctypes.c_uint64) * 8 + 6 * 4 == len(RackCall().packed())


@pytest.mark.cuda
@pytest.mark.skipif(bool(no_gpu() or racks.lacking()), reason=no_gpu() or racks.lacking())
@pytest.mark.parametrize("model", ["simple_mlp", "digits", "autoencoder"])
@pytest.mark.parametrize("devices", [3, 4200])
def test_bits_on_a_gpu(model: str, devices: int, tmp_path: Path) -> None:
    """A GPU has the bits of the library on this machine, for few devices and for many."""
    trial = racks.trial_of(model, tmp_path, devices)
    found = racks.on_rack(start.start_rack(trial.folder, TARGET, devices, tmp_path / "code"), trial)
    checked = min(devices, 64)
    expected = racks.on_host(trial, checked)
    racks.assert_same(Trained(found.losses[:checked], found.digests[:checked], found.weights[:checked]), expected)
