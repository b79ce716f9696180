"""Runs single C kernels from Python: a shared library of all kernels, and the tile loop of a step."""

import ctypes
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from deployer.codegen.generate import kernel_files
from deployer.core.access import Access, Broadcast, Operand, Tile, order_dims, strides, tiles
from deployer.core.errors import BuildFailed
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Kernel, Stride
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, execution_of, registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.core.target import load
from deployer.core.traits.execution import with_carry
from deployer.kernel_variants.calls import value_of
from deployer.lr_schedules.run_time import kernel_args
from deployer.running import build
from deployer.running.build import COMMON, KernelSource, kernel_source

FLAGS = ("-std=c11", "-shared", "-fPIC")
LINK = ("-nostdlib", "-Wl,--no-undefined")
"""Linker flags under which a kernel that calls any function outside of the HAL does not link."""
GUARD = 16
"""Elements around a packed buffer that no kernel may change."""

_STUB = """
#include "hal.h"
static uint32_t id, count = 1;
void bench_core(uint32_t core, uint32_t cores) { id = core; count = cores; }
uint32_t hal_core_id(void) { return id; }
uint32_t hal_core_count(void) { return count; }
"""
_C_TYPES = {"u32": ctypes.c_uint32, "i32": ctypes.c_int32, "f32": ctypes.c_float}


def compiled(printed: Mapping[str, str], sources: Sequence[KernelSource], name: str) -> ctypes.CDLL:
    """Load a library of C files by the host's compiler and flags, with a HAL that knows only cores.

    `printed` are further files by name: C files are compiled in one unit, headers lie beside them. It links nothing.
    """
    folder = Path(tempfile.mkdtemp(prefix="kernels"))
    try:
        for file, text in {**printed, "hal_target.h": "#define HAL_TABLE\n", "stub.c": _STUB}.items():
            (folder / file).write_text(text)
        unit = sorted(file for file in printed if file.endswith(".c"))
        (folder / "printed.c").write_text("".join(f'#include "{file}"\n' for file in unit))  # headers once for all
        tools = build.toolchain(load(Options().target))
        includes = [f"-I{folder}", f"-I{COMMON / 'include'}"]
        flags = (*build.compiler(tools), *build.flags_of(tools), *FLAGS, *LINK, *includes)
        command = [
            *flags,
            "stub.c",
            "printed.c",
            *(str(source.written(folder)) for source in sources),
            "-o",
            f"{name}.so",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildFailed(f"{command[0]} refuses kernels of {name}:\n{done.stderr.strip()}")
        return ctypes.CDLL(str(folder / f"{name}.so"))
    finally:
        shutil.rmtree(folder)


@cache
def _family(module: str) -> ctypes.CDLL:
    """The kernels of the operators of a module."""
    operators = [op for op in registry().values() if type(op).__module__ == module and op.kernel is not None]
    kernels = {op.kernel.symbol: op.kernel for op in operators if op.kernel is not None}
    printed = {name: text for kernel in kernels.values() for name, text in kernel_files(kernel).items()}
    tools = build.toolchain(load(Options().target))
    written = [symbol for symbol in sorted(kernels) if f"{symbol}.c" not in printed]
    return compiled(printed, [kernel_source(symbol, tools, COMMON) for symbol in written], module)


@cache
def library(symbol: str) -> ctypes.CDLL:
    """A library with the kernel and those of its family, compiled when the first of them is asked for."""
    owner = next(op for op in registry().values() if op.kernel is not None and op.kernel.symbol == symbol)
    return _family(type(owner).__module__)


@cache
def kernel_model() -> KernelModel:
    """The kernel model by which tests of kernels and of their work count: that of the default target."""
    return load(Options().target).kernel_model


@dataclass(frozen=True, eq=False)
class BenchStep:
    """A sample as a node with types, and its access where the operator has a kernel for it."""

    operator: Operator
    node: Node
    types: dict[str, TensorType]
    values: dict[str, Array]
    access: Access = field(default_factory=lambda: Access((), ()))

    @property
    def inputs(self) -> list[TensorType | None]:
        """Types of the inputs."""
        return [self.types[n] if n else None for n in self.node.inputs]

    @property
    def arrays(self) -> list[Array | None]:
        """Values of the inputs."""
        return [self.values[n] if n else None for n in self.node.inputs]

    @cached_property
    def flag(self) -> int:
        """The lazy-reset flag of the pass: the input that no kernel pointer takes."""
        used = {o.tensor for o in self.access.operands}
        return int(any(np.any(self.values[n]) for n in self.node.inputs if n and n not in used))


def step_of(operator: Operator, sample: Sample, absent: Collection[int] = ()) -> BenchStep:
    """The sample as a node with inputs x0.. and outputs y0.. but those `absent`; it has an access where nothing is
    lowered.
    """
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(sample.inputs))
    outputs = tuple("" if i in absent else f"y{i}" for i in range(sample.outputs))
    node = Node(sample.label, operator.name, names, outputs, dict(sample.attrs))
    values = {n: np.asarray(x) for n, x in zip(names, sample.inputs, strict=True) if x is not None}
    types = {n: TensorType(x.dtype.name, x.shape) for n, x in values.items()}
    inputs = [types[n] if n else None for n in names]
    types.update((n, kind) for n, kind in zip(outputs, operator.infer(node, inputs), strict=False) if n)
    step = BenchStep(operator, node, types, values)
    if operator.kernel is None or operator.lower(node, inputs) is not None:
        return step
    running, carried = with_carry(execution_of(operator).sums, node, partial(operator.access, node, types))
    types.update(carried)
    return BenchStep(operator, node, types, values, operator.access(running, types))


@dataclass
class Slot:
    """The memory of a kernel pointer: the full tensor if resident, or a packed box between guard bytes."""

    operand: Operand
    memory: Array
    resident: bool
    box: tuple[tuple[int, int], ...] | None = None
    buffer: Array = field(default_factory=lambda: np.empty(0, np.float32))
    place: tuple[tuple[int, int], ...] = ()
    """The part of the tile that the box depends on."""
    address: int = 0
    """Of the box's first element."""
    strides: tuple[int, ...] = ()
    """Elements between neighbours along each axis, a broadcast one's too."""

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """The dims that the box depends on."""
        return self.operand.dims

    @property
    def window(self) -> tuple[slice, ...]:
        """The box as slices of the view."""
        assert self.box is not None
        return tuple(slice(start, start + length) for start, length in self.box)

    def move_to(self, tile: Tile, load: bool) -> None:
        """Write the old box back and, under `load`, fetch the new one; an unchanged box stays."""
        place = tuple(tile[name] for name in self.dims)
        if self.box is not None and place == self.place:
            return
        self.place = place
        box = self.operand.box(tile)
        if box == self.box:
            return
        self.flush()
        self.box = box
        shape = tuple(length for _, length in box)
        if self.resident:
            self.strides = strides(self.memory.shape)
            first = sum(start * s for (start, _), s in zip(box, self.strides, strict=True))
            self.address = int(self.memory.ctypes.data) + first * self.memory.itemsize
            return
        self.strides = strides(shape)
        self.buffer = poisoned(math.prod(shape) + 2 * GUARD, self.memory.dtype)
        self.address = int(self.buffer.ctypes.data) + GUARD * self.memory.itemsize
        if load:
            self.buffer[GUARD:-GUARD] = self.memory[self.window].reshape(-1)

    def flush(self) -> None:
        """Write the box back where the kernel writes, and check the guards."""
        if self.resident or self.box is None:
            return
        sound = _guard(self.buffer.dtype)
        before, after = self.buffer[:GUARD], self.buffer[-GUARD:]
        assert bits(before) == sound == bits(after), f"{self.operand.arg}: the kernel writes {_written(before, after)}"
        shape = tuple(length for _, length in self.box)
        if self.operand.writes:
            self.memory[self.window] = self.buffer[GUARD:-GUARD].reshape(shape)

    def stride(self, axis: int) -> int:
        """Elements between neighbours along an axis of the view."""
        return 0 if isinstance(self.operand.axes[axis], Broadcast) else self.strides[axis]


def lawful(access: Access, sizes: Mapping[str, int]) -> dict[str, int]:
    """Legal tile lengths: no split inside of a quantum, or of a reduction inside of one with longer tiles than 1."""
    lengths, single = {}, True
    for d in access.dims:
        reduces = d.kind == "reduction"
        lengths[d.name] = d.rounded(sizes[d.name]) if single or not reduces else d.size
        single = single and (lengths[d.name] == 1 or not reduces)
    return lengths


def poisoned(count: int, dtype: np.dtype[Any]) -> Array:
    """An array that no result may depend on: NaN, or a large integer."""
    if dtype.kind == "f":
        return np.full(count, np.nan, dtype)
    return np.frombuffer(b"\x5a" * count * dtype.itemsize, dtype).copy()


def _written(before: Array, after: Array) -> str:
    """The first element of the guards around a box that is not as it was, and its value."""
    own = bits(poisoned(1, before.dtype))
    for number, value in enumerate(before[::-1], 1):
        if bits(value) != own:
            return f"{value} outside of its box, {number} elements before the first"
    number, value = next((n, value) for n, value in enumerate(after, 1) if bits(value) != own)
    return f"{value} outside of its box, {number} elements behind the last"


@cache
def _guard(dtype: np.dtype[Any]) -> bytes:
    return bits(poisoned(GUARD, dtype))


def canonical(values: Array) -> bytes:
    """The bits, every NaN as one: an invalid operation makes a negative NaN on x86 and a positive one on RISC-V."""
    return (
        np.where(np.isnan(values), values.dtype.type(np.nan), values).tobytes()
        if values.dtype.kind == "f"
        else values.tobytes()
    )


def bits(x: Array) -> bytes:
    """The exact content."""
    return np.ascontiguousarray(x).tobytes()


def run_step(
    step: BenchStep, sizes: Mapping[str, int], cores: Sequence[int] = (0,), resident: Sequence[str] = ()
) -> list[Array]:
    """The node's outputs by its C kernel, tile by tile.

    `cores` is the order in which the cores run, `resident` the arguments whose operands are not packed.
    """
    kernel = step.operator.kernel
    assert kernel is not None
    values = dict(step.values)
    slots: dict[str, Slot] = {}
    for operand in step.access.operands:
        kind = step.types[operand.tensor]
        old = values.get(operand.tensor)
        content = poisoned(kind.size, np.dtype(kind.dtype)) if old is None or operand.mode == "out" else old.copy()
        memory = np.ascontiguousarray(content).reshape(operand.view)
        slots[operand.arg] = Slot(operand, memory, operand.arg in resident)
    args = kernel_args(step.node, step.access, kernel_model())
    call: Callable[..., None] = getattr(library(kernel.symbol), kernel.symbol)
    bench_core = library(kernel.symbol).bench_core
    changing = [(name, args[name]) for name, _ in kernel.scalars if not isinstance(args[name], Const)]
    fixed = {name: value.value for name, value in args.items() if isinstance(value, Const)}
    arguments = structure(kernel)(**fixed)
    for tile in tiles(step.access, sizes, order_dims(step.access)):
        for slot in slots.values():
            slot.move_to(tile, slot.operand.reads and not (step.flag and slot.operand.overwrite_on_first_pass))
        for name, slot in slots.items():
            setattr(arguments, name, slot.address)
        for name, value in changing:
            setattr(arguments, name, _value(value, tile, step, slots))
        for core in cores:
            bench_core(core, len(cores))
            call(ctypes.byref(arguments))
    for slot in slots.values():
        slot.flush()
    results = {o.tensor: slots[o.arg].memory for o in step.access.operands if o.writes}
    results |= {
        step.node.outputs[out]: results[step.node.inputs[source]] for out, source in step.operator.inplace.items()
    }
    names = [*step.node.outputs, *(o.tensor for o in step.access.operands if o.tensor.endswith("/carry"))]
    return [results[n].reshape(step.types[n].shape) for n in names if n]


@cache
def structure(kernel: Kernel) -> type[ctypes.Structure]:
    """The argument struct of a kernel."""
    fields = [(name, ctypes.c_void_p) for name, _, _ in kernel.pointers]
    fields += [(name, _C_TYPES[kind]) for name, kind in kernel.scalars]  # type: ignore[misc]
    return type(kernel.symbol, (ctypes.Structure,), {"_fields_": fields})


def _value(value: ArgValue, tile: Tile, step: BenchStep, slots: Mapping[str, Slot]) -> int | float:
    """Value of a scalar; strides are those of the slot, which may be a part of a larger array."""
    if isinstance(value, Stride):
        return slots[value.arg].stride(value.axis)
    return value_of(value, step.access, tile, step.flag)
