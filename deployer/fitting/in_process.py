"""A generated program as a shared library in this process: one pass per call, its tensors as views of its memory."""

import _ctypes
import ctypes
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deployer import pipeline
from deployer.codegen.render import number_count
from deployer.codegen.step_library import INT32, IntegerLimits, exported, step_library_files
from deployer.core import artefact
from deployer.core.errors import RunFailed, ToolFailed
from deployer.core.ir import Program
from deployer.core.operator import Array, numerics_of
from deployer.core.plan import Options, Plan, target_of
from deployer.fitting.segments import UNTIL_TOLD
from deployer.frontend.data_numbers import choices_by
from deployer.planning.plan_choice import Progress, silent
from deployer.running import build, output

State = Mapping[str, Array]


@dataclass(frozen=True)
class DataInput:
    """Data input of a program: its name, the shape of a batch, and the type in which the library takes it.

    `watched` inputs have limits that the library does not know; the caller checks them.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    watched: bool


class StepLibrary:
    """A program that this process has loaded. Its tensors keep their content from call to call.

    `tensors` has weights, constants, states, accumulators and results by storage, as views of its memory.
    """

    def __init__(self, program: Program, options: Options, folder: Path, progress: Progress = silent) -> None:
        """Plan and build the program in a folder of its own, and load it with the program's initial content."""
        self.program = program
        self.plan = _built(program, options, folder, progress)
        self.inputs = data_inputs(program)
        self._code = _loaded(folder / build.LIBRARY, unloads=target_of(self.plan.options).cores == 1)
        self._code.step_tensor.restype = ctypes.c_void_p
        self._code.step_unfit.restype = ctypes.c_char_p
        unfit = self._code.step_unfit()
        if unfit is not None:
            raise RunFailed(f"this machine cannot run the plan: {unfit.decode(errors='replace')}")
        self.tensors = {storage: self._tensor(i, storage) for i, storage in enumerate(exported(self.plan))}
        count = number_count(self.plan)
        self.numbers: Array = self._numbers(count) if count else np.zeros(0, np.float32)
        self.loss = ctypes.c_float()
        self.run = self._code.step_pass
        self.run.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p]
        self.run.restype = ctypes.c_uint32
        self.load({})

    def load(self, state: State) -> None:
        """Set all tensors: those of `state`, and the program's own content elsewhere."""
        for storage, place in self.tensors.items():
            tensor = self.program.tensors[storage]
            known = tensor.array if tensor.data is not None else np.zeros(place.shape, place.dtype)
            place[...] = np.asarray(state.get(storage, known)).reshape(place.shape)

    def _tensor(self, index: int, storage: str) -> Array:
        kind = self.program.tensors[storage].type
        return _view(self._code, self._code.step_tensor(index), kind.dtype, kind.shape)

    def _numbers(self, count: int) -> Array:
        self._code.step_numbers.restype = ctypes.c_void_p
        return _view(self._code, self._code.step_numbers(), "float32", (count,))


def _loaded(path: Path, unloads: bool) -> ctypes.CDLL:
    """Load a library, under a name of its own: two of one name would share their memory.

    If it `unloads`, its memory is given back once nothing refers to it; threads of its own would go on running.
    """
    with tempfile.TemporaryDirectory(prefix="deployer-") as place:
        own = Path(shutil.copyfile(path, Path(place) / path.name))
        try:
            code = ctypes.CDLL(str(own))
        except OSError as error:
            raise ToolFailed(f"{path} cannot be loaded: {error}", hint="another temporary folder: TMPDIR") from error
    if unloads:
        weakref.finalize(code, _ctypes.dlclose, code._handle)
    return code


def _view(code: ctypes.CDLL, address: int, dtype: str, shape: Sequence[int]) -> Array:
    """An array over memory of the library, which stays loaded as long as the array exists."""
    kind = np.dtype(dtype)
    memory: Any = (ctypes.c_char * (int(np.prod(shape, dtype=np.int64)) * kind.itemsize)).from_address(address)
    memory.owner = code
    return np.asarray(np.frombuffer(memory, kind).reshape(shape))


def _built(program: Program, options: Options, folder: Path, progress: Progress) -> Plan:
    plan = pipeline.plan_program(program, options, progress, UNTIL_TOLD)[1]
    progress("build")
    limits = {name: _limits(program, name) for name in program.data if program.tensors[name].type.dtype == "int32"}
    known = {program.storage(name): found for name, found in limits.items() if found is not None}
    files = {**step_library_files(plan, known), "plan.json": artefact.dumps(plan)}
    with output.opened(folder, files, True):
        pipeline.write_files(files, folder, True)
        build.build_program(plan, folder, library=True)
    return plan


def data_inputs(program: Program) -> tuple[DataInput, ...]:
    """The data inputs of a program in order; integers are taken as int64."""
    watched = {program.storage(n.inputs[i]) for n in program.nodes for i in numerics_of(n).bounded}
    inputs = []
    for name in program.data:
        kind = program.tensors[name].type
        is_whole = kind.dtype == "int32"
        check = name in watched or (is_whole and _limits(program, name) is None)
        inputs.append(DataInput(name, kind.shape, "int64" if is_whole else kind.dtype, check))
    return tuple(inputs)


def _limits(program: Program, name: str) -> IntegerLimits | None:
    """The integers that a data input may hold; None where they differ by column."""
    least, most, ignored = *INT32, set[int | None]()
    for _, indices, _ in choices_by(program, (name,), from_front=True):
        if indices.sizes:
            return None
        least, most = max(least, indices.least), min(most, indices.least + indices.count - 1)
        ignored.add(indices.ignored)
    return IntegerLimits(least, most, ignored.pop() if len(ignored) == 1 else None)
