"""Measure: the cycles of kernels, of an empty dispatch and of DMA transfers on a target, and the kernels' results."""

import hashlib
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
from mako.template import Template

import deployer.templates
from deployer.codegen.generate import kernel_files
from deployer.core.access import Tile
from deployer.core.errors import BuildFailed, InternalError, OptionProblem, RunFailed
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import Kernel, function_name
from deployer.core.kernel_model import KernelModel
from deployer.core.level import L_INNER
from deployer.core.operator import Array, execution_of, operator_of
from deployer.core.safe_text import TEMPLATE_OPTIONS, CText, identifier
from deployer.core.target import Target, Toolchain
from deployer.core.traits.execution import with_carry
from deployer.kernel_variants.calls import value_of
from deployer.kernel_variants.conditions import KernelVariant, chosen, variants_of
from deployer.running import build
from deployer.running import run as runner
from deployer.running.build import COMMON, function_source, source_folders
from deployer.running.child import child_process, end

RUNS = 3
"""The number of runs of each job: the first has cold instruction caches, the others warm ones."""
GUARD = 16
"""The bytes of a guard between two operands, which no kernel may change."""
_PATTERN = b"\xa5" * GUARD
_FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
Direction = Literal["in", "out", "both"]
_DIRECTIONS: dict[Direction, int] = {"in": 1, "out": 2, "both": 3}


@dataclass(frozen=True, eq=False)
class KernelJob:
    """One kernel call: the content of each operand before it (an absent pointer is null) and every scalar."""

    label: str
    kernel: Kernel
    operands: Mapping[str, Array]
    scalars: Mapping[str, int | float]


@dataclass(frozen=True)
class TransferJob:
    """`count` runs of `run` bytes, `stride` bytes apart in the outer level; "both" starts in and out at once."""

    label: str
    direction: Direction
    run: int
    count: int = 1
    stride: int = 0
    hop: int = 0


EMPTY = "empty"
DISPATCH = KernelJob("dispatch", Kernel(EMPTY, (), ()), {}, {})
"""The call of an empty kernel."""

Job = KernelJob | TransferJob


@dataclass(frozen=True, eq=False)
class Measured:
    """Cycles of each run from call to return, of which `issue` start a transfer; operand content after one run."""

    label: str
    cycles: tuple[int, ...]
    issue: tuple[int, ...]
    operands: dict[str, Array]

    @property
    def cold(self) -> int:
        """Cycles with cold instruction caches."""
        return self.cycles[0]

    @property
    def warm(self) -> int:
        """Cycles of the last run."""
        return self.cycles[-1]


def kernel_job(
    label: str,
    node: Node,
    types: Mapping[str, TensorType],
    values: Mapping[str, Array],
    tile: Tile,
    model: KernelModel,
    flag: int = 0,
) -> KernelJob:
    """The call of a node's kernel for one tile with packed operands; tensors without a value get random ones."""
    operator = operator_of(node)
    node, carried = with_carry(execution_of(operator).sums, node, partial(operator.access, node, types))
    types = {**types, **carried}
    access = operator.access(node, types)
    if operator.kernel is None:
        raise InternalError(f"operator {operator.name} has no kernel")
    arguments = operator.args(node, access) | operator.model_args(node, access, model)
    operands = {}
    for position, operand in enumerate(access.operands):
        value = values.get(operand.tensor)
        if value is None:
            value = random_array(types[operand.tensor], position)
        window = tuple(slice(first, first + length) for first, length in operand.box(tile))
        operands[operand.arg] = np.ascontiguousarray(value.reshape(operand.view)[window])
    scalars = {name: value_of(arguments[name], access, tile, flag) for name, _ in operator.kernel.scalars}
    return KernelJob(label, operator.kernel, operands, scalars)


def random_array(kind: TensorType, seed: int) -> Array:
    """Normal floats; integers are zero, which every operator takes as a label."""
    if kind.dtype != "float32":
        return np.zeros(kind.shape, kind.dtype)
    return np.random.default_rng(seed).standard_normal(kind.shape).astype(np.float32)


def fits(target: Target, job: KernelJob) -> bool:
    """Whether the innermost level of the target has room for all operands of the job at once."""
    return _Image(target, job).fits


def measure_jobs(target: Target, jobs: Sequence[Job], directory: Path, use_variants: bool = True) -> list[Measured]:
    """Build one program for all jobs in `directory`, run it, and return the measurement of each job, in order.

    Without `use_variants` kernels are called by their functions for all calls alone.
    Raises OptionProblem for a target whose clock is a model or whose innermost level is too small, and what build and
    run raise.
    """
    tools = build.toolchain(target)
    if target.clock == "model":
        raise OptionProblem(
            f"target {target.name!r} has the clock of a cost model",
            hint="measure on a target with its own toolchain and clock",
        )
    images = [_Image(target, job) if isinstance(job, KernelJob) else None for job in jobs]
    for image in images:
        if image:
            image.check()
    called = [function_of(job, target, use_variants) if isinstance(job, KernelJob) else None for job in jobs]
    calls = {name: job.kernel for name, job in zip(called, jobs, strict=True) if name and isinstance(job, KernelJob)}
    functions = sorted(calls)
    program(target, [(calls[name], name[1]) for name in functions], _rooms(target, jobs), directory)
    numbers = [functions.index(name) + 1 if name else 0 for name in called]
    records = [_record(job, image, number) for job, image, number in zip(jobs, images, numbers, strict=True)]
    (directory / "input.bin").write_bytes(b"".join(records) + struct.pack("<I", 0))
    dump = _run(target, tools, directory)
    results, at = [], 0
    for job, image in zip(jobs, images, strict=True):
        size = len(image.content) if image else 0
        times = np.frombuffer(dump, np.uint32, 2 * RUNS, at + size).reshape(RUNS, 2).tolist()
        issue, cycles = zip(*times, strict=True)
        left = image.read(dump[at : at + size]) if image else {}
        results.append(Measured(job.label, cycles, issue, left))
        at += size + 8 * RUNS
    return results


def function_of(job: KernelJob, target: Target, use_variants: bool) -> tuple[str, str] | None:
    """The kernel of a job, and the name of its function for such calls or an empty one; None for the empty kernel."""
    if job.kernel.symbol == EMPTY:
        return None
    function = variant_of(job, target) if use_variants else None
    return job.kernel.symbol, function.name if function else ""


def variant_of(job: KernelJob, target: Target) -> KernelVariant | None:
    """The function for such calls as a job's; None where there is none."""
    values = {**job.scalars, **{name: name in job.operands for name, _, _ in job.kernel.pointers}}
    return chosen(variants_of(job.kernel.symbol, target), lambda c: iter((bool(c.holds(values, target.cores)),)))


def _rooms(target: Target, jobs: Sequence[Job]) -> dict[str, int]:
    """The bytes of each level that the jobs move or compute in; a level that has the program too leaves it the rest."""
    rooms = [level.budget if i == L_INNER else 0 for i, level in enumerate(target.levels)]
    for job in jobs:
        if isinstance(job, TransferJob):
            both = 2 * job.count * max(job.run, job.stride if job.count > 1 else 0)
            rooms[job.hop : job.hop + 2] = [max(room, both) for room in rooms[job.hop : job.hop + 2]]
    return {level.name: room for level, room in zip(target.levels, rooms, strict=True)}


def program(target: Target, functions: Sequence[tuple[Kernel, str]], rooms: Mapping[str, int], directory: Path) -> Path:
    """Compile the measuring program with these functions of kernels and so many bytes of each level into `directory`,
    unless it is up to date; those for all calls of a kernel have no name.
    """
    tools = build.toolchain(target)
    directory.mkdir(parents=True, exist_ok=True)
    for kernel in {kernel.symbol: kernel for kernel, _ in functions}.values():
        for name, content in kernel_files(kernel).items():
            (directory / name).write_text(content)
    levels = tuple(identifier(level.name.lower()) for level in target.levels)
    symbols = tuple(dict.fromkeys(identifier(kernel.symbol) for kernel, _ in functions))
    called = tuple(identifier(function_name(kernel.symbol, name)) for kernel, name in functions)
    view = _View(symbols, called, target.cores, levels, RUNS)
    (directory / "measure.c").write_text(str(_template().render(v=view)))
    folders = [directory, COMMON / "include", *source_folders(tools)]
    sources = [directory / "measure.c"]
    found = [function_source(kernel.symbol, name, target, tools, directory) for kernel, name in functions]
    sources += [source.written(directory) for source in found]
    sources += sorted((COMMON / "runtime").glob("*.c"))
    for folder in folders[2:]:
        sources += sorted(p for p in folder.iterdir() if p.suffix in (".c", ".S"))
    words = [*build.compiler(tools), *build.flags_of(tools), *(f"-I{folder}" for folder in folders), *map(str, sources)]
    words += build.link_words(tools, words[0], target, rooms)
    path, stamp = directory / "network", directory / "network.sha256"
    text = hashlib.sha256("\0".join(words).encode())
    for source in [*sources, *(h for folder in folders for h in sorted([*folder.glob("*.h"), *folder.glob("*.ld")]))]:
        text.update(source.read_bytes())
    if not path.is_file() or not stamp.is_file() or stamp.read_text() != text.hexdigest():
        status, messages = _communicate([*words, "-o", str(path)], directory)
        if status != 0:
            raise BuildFailed(f"compiling {path} failed", [("compiler", messages[-3000:])])
        stamp.write_text(text.hexdigest())
    return path


@dataclass(frozen=True)
class _View:
    symbols: tuple[CText, ...]
    functions: tuple[CText, ...]
    cores: int
    levels: tuple[CText, ...]
    runs: int


@cache
def _template() -> Template:
    path = Path(deployer.templates.__file__).parent / "measure.c.mako"
    return Template(filename=str(path), **TEMPLATE_OPTIONS)


class _Image:
    """The innermost level's content for a job: its argument table, then each operand between two guards."""

    def __init__(self, target: Target, job: KernelJob) -> None:
        self.job = job
        size = target.pointer_bytes
        content = bytearray(job.kernel.table_bytes(size) + (-job.kernel.table_bytes(size)) % 16)
        self.places: dict[str, int] = {}
        for name, _, _ in job.kernel.pointers:
            if name in job.operands:
                content += _PATTERN
                self.places[name] = len(content)
                content += np.ascontiguousarray(job.operands[name]).tobytes()
        content += _PATTERN
        pointers = [self.places.get(name, 0) for name, _, _ in job.kernel.pointers]
        kinds = "".join(_FORMATS[kind] for _, kind in job.kernel.scalars)
        values = [job.scalars[name] for name, _ in job.kernel.scalars]
        table = struct.pack(f"<{len(pointers)}{'IQ'[size == 8]}{kinds}", *pointers, *values)
        content[: len(table)] = table
        self.content = bytes(content)
        self.level = target.levels[L_INNER]
        self.room = self.level.bytes - self.level.reserved

    @property
    def fits(self) -> bool:
        """Whether the innermost level has room for all of it."""
        return len(self.content) <= self.room

    def check(self) -> None:
        """Raise OptionProblem unless it fits."""
        if not self.fits:
            needed = f"needs {len(self.content)} B of {self.level.name}, there are {self.room} B"
            raise OptionProblem(f"job {self.job.label!r} {needed}")

    def read(self, content: bytes) -> dict[str, Array]:
        """Each operand's content after the run; RunFailed where a guard was overwritten."""
        arrays = {}
        for name, place in self.places.items():
            before = self.job.operands[name]
            after = np.frombuffer(content, before.dtype, before.size, place).reshape(before.shape)
            end = place + before.nbytes
            if content[place - GUARD : place] != _PATTERN or content[end : end + GUARD] != _PATTERN:
                raise RunFailed(f"job {self.job.label!r} wrote outside of operand {name!r}")
            arrays[name] = after
        return arrays


def _record(job: Job, image: _Image | None, function: int) -> bytes:
    """A job in the format that the measuring program reads, with the number of its function there."""
    if isinstance(job, TransferJob):
        return struct.pack("<6I", 2, job.hop, _DIRECTIONS[job.direction], job.run, job.count, job.stride)
    if image is None:
        raise InternalError("a kernel job without operands")
    return struct.pack("<4I", 1, function, len(job.kernel.pointers), len(image.content)) + image.content


def _run(target: Target, tools: Toolchain, directory: Path) -> bytes:
    """Run the program and return the content of its output file."""
    sink = directory / "output.bin"
    sink.unlink(missing_ok=True)
    status, messages = _communicate(runner.command_line(target.name, tools, directory, ()), directory)
    if status != 0 or not sink.is_file():
        facts = [("said", messages[-3000:])]
        failed = RunFailed(f"{directory / 'network'} ended with status {status}", facts)
        raise runner.not_run(tools, status, runner.own_lines(messages), facts) or failed
    return sink.read_bytes()


def _communicate(command: Sequence[str], directory: Path) -> tuple[int, str]:
    """Run a command: its exit status and all it printed. A command that hangs is killed with its child processes."""
    limit = runner.time_limit()
    with child_process(command, directory, subprocess.STDOUT) as process:
        try:
            messages, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as expired:
            end(process)
            messages, _ = process.communicate()
            facts = [("said", messages[-3000:])]
            hint = f"{runner.LIMIT_VARIABLE}=7200 in the environment for two hours, 0 for no limit"
            raise RunFailed(f"{command[0]} did not end within {expired.timeout:.0f} s", facts, hint) from expired
    return process.returncode, messages
