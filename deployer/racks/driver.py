"""A GPU through the functions of its driver: memory, a module of code, launches. No toolkit is needed."""

import ctypes
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from deployer.core.errors import MachineTooSmall, RunFailed, ToolMissing
from deployer.racks.device_code import DeviceCode
from deployer.racks.launch import MachineLimits
from deployer.racks.machine import RackCall
from deployer.racks.rules import DriverRules
from deployer.racks.tools import EMULATE

MULTIPROCESSORS, MAJOR, MINOR, SCRATCH = 16, 75, 76, 97
"""Attributes of a device: multiprocessors, compute capability, most shared memory of a block."""
STACK_SIZE = 0
"""The limit of a context that is the stack of a lane."""
DYNAMIC_SHARED = 8
"""The attribute of a function that allows more shared memory than the usual 48 KiB."""
USUAL_SHARED = 48 << 10
NO_DEVICE = (100, 101)
"""Results that say that there is no device, or none of this number."""
OUT_OF_MEMORY = 2
_SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSetLimit": (c_int, c_size_t),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (c_void_p, c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemsetD8_v2": (c_uint64, ctypes.c_ubyte, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoD_v2": (c_uint64, c_char_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
    "cuGetErrorString": (c_int, c_void_p),
}
"""Types of the arguments of the driver's functions; each returns its result as an int."""


class Driver:
    """The functions of a driver, and its device number 0 as the current one."""

    def __init__(self, rules: DriverRules) -> None:
        """Load the driver. ToolMissing where there is none, or no device."""
        try:
            library = ctypes.CDLL(rules.library)
        except OSError as error:
            cause = f"{rules.library} cannot be loaded: this machine has no NVIDIA driver"
            hint = f"a machine with an NVIDIA GPU and its driver; or {EMULATE}, which needs neither"
            raise ToolMissing(cause, [("said", str(error))], hint) from None
        self._functions: dict[str, Any] = {}
        for name, types in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self._device, context = c_int(), c_void_p()
        self._begin()
        self.call("cuDeviceGet", byref(self._device), 0)
        self.call("cuDevicePrimaryCtxRetain", byref(context), self._device)
        self.call("cuCtxSetCurrent", context)

    def _begin(self) -> None:
        """Initialize the driver; ToolMissing where it finds no device."""
        result = self._functions["cuInit"](0)
        if result in NO_DEVICE:
            hint = f"a machine with an NVIDIA GPU; or {EMULATE}"
            raise ToolMissing("the NVIDIA driver finds no GPU", [("said", self.text(result))], hint)
        self._check("cuInit", result)

    def text(self, result: int) -> str:
        """The driver's text for a result."""
        said = c_char_p()
        self._functions["cuGetErrorString"](result, byref(said))
        return f"{(said.value or b'unknown').decode()} ({result})"

    def _check(self, name: str, result: int) -> None:
        if result:
            raise RunFailed(f"{name} of the NVIDIA driver failed", [("said", self.text(result))])

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; RunFailed with the driver's text where its result is not 0."""
        self._check(name, self._functions[name](*arguments))

    def attribute(self, number: int) -> int:
        """An attribute of the device."""
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, self._device)
        return value.value

    @property
    def architecture(self) -> str:
        """The architecture for which code is assembled, such as sm_90."""
        return f"sm_{self.attribute(MAJOR)}{self.attribute(MINOR)}"

    @property
    def limits(self) -> MachineLimits:
        """The device's name and sizes."""
        name, memory = ctypes.create_string_buffer(256), c_size_t()
        self.call("cuDeviceGetName", name, len(name), self._device)
        self.call("cuDeviceTotalMem_v2", byref(memory), self._device)
        return MachineLimits(name.value.decode(), memory.value, self.attribute(SCRATCH))

    def release(self) -> None:
        """Give the device back."""
        self.call("cuDevicePrimaryCtxRelease_v2", self._device)


class DriverMachine:
    """A GPU with the code of a library."""

    def __init__(self, driver: Driver, code: DeviceCode, rules: DriverRules) -> None:
        """Load the code. RunFailed where the driver refuses it."""
        self._driver, self.limits = driver, driver.limits
        self._module, self._kernels = c_void_p(), dict[str, c_void_p]()
        frame = max((entry.frame for entry in code.resources.values()), default=0)
        driver.call("cuCtxSetLimit", STACK_SIZE, frame + rules.stack)
        driver.call("cuModuleLoadData", byref(self._module), code.cubin.read_bytes())

    def _kernel(self, entry: str, scratch: int) -> c_void_p:
        """The function of an entry, which may have so many bytes of shared memory."""
        if entry not in self._kernels:
            found = c_void_p()
            self._driver.call("cuModuleGetFunction", byref(found), self._module, entry.encode())
            if scratch > USUAL_SHARED:
                self._driver.call("cuFuncSetAttribute", found, DYNAMIC_SHARED, scratch)
            self._kernels[entry] = found
        return self._kernels[entry]

    def allocate(self, count: int) -> int:
        """Return the address of so many bytes, all 0; MachineTooSmall without that much memory."""
        address = c_uint64()
        try:
            self._driver.call("cuMemAlloc_v2", byref(address), max(count, 1))
        except RunFailed as error:
            if f"({OUT_OF_MEMORY})" not in str(error):
                raise
            facts = [("asked for", f"{count} B"), ("all memory", f"{self.limits.memory} B")]
            raise MachineTooSmall(f"{self.limits.name} has too little memory", facts, "fewer --replicas") from None
        self._driver.call("cuMemsetD8_v2", address, 0, max(count, 1))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back."""
        self._driver.call("cuMemFree_v2", address)

    def write(self, address: int, content: bytes) -> None:
        """Copy bytes to the GPU."""
        self._driver.call("cuMemcpyHtoD_v2", address, content, len(content))

    def read(self, address: int, count: int) -> bytes:
        """Copy bytes from the GPU, after all launches."""
        content = ctypes.create_string_buffer(max(count, 1))
        self._driver.call("cuMemcpyDtoH_v2", content, address, count)
        return content.raw[:count]

    def launch(self, entry: str, groups: int, lanes: int, scratch: int, call: RackCall) -> None:
        """Run an entry on so many blocks of threads, and wait for its end."""
        packed = call.packed()
        arguments = (c_void_p * 1)(ctypes.cast(ctypes.create_string_buffer(packed, len(packed)), c_void_p))
        kernel = self._kernel(entry, scratch)
        self._driver.call("cuLaunchKernel", kernel, groups, 1, 1, lanes, 1, 1, scratch, None, arguments, None)
        self._driver.call("cuCtxSynchronize")

    def close(self) -> None:
        """Unload the code and give the device back."""
        self._driver.call("cuModuleUnload", self._module)
        self._driver.release()
