"""The programs that faults are planted in: their cases, their build with the layer, and their census."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.codegen import generate
from deployer.codegen.c_names import MemoryNames
from deployer.core.access import Span, nested
from deployer.core.ir import DTYPES
from deployer.core.plan import Options, Plan, PlanOperand, PlanStep, target_of
from deployer.pipeline import Case
from deployer.running import build
from deployer.training.train_graph import build_train_graph
from deployer.verify.verdict import Expected
from DeployTest.models import autoencoder, transformer
from DeployTest.models.parts.convnet import ConvNet
from DeployTest.quantized.models import Net, written

from . import census, printed

HERE = Path(__file__).resolve().parent
ACCUMULATED = {"n_accum": 2, "n_batches": 4}
"""Two updates of two passes: the lazy-reset flag is set in one pass and clear in the next, twice."""
BUFFERINGS = ("single", "double")


@dataclass(frozen=True)
class Recipe:
    """A case and its budgets: L1 is so small that all steps have tiles, and L2, if set, so small that tensors spill."""

    name: str
    l1: int
    l2: int | None = None

    def generate(self, folder: Path) -> Path:
        """Write the case; its *_train folder."""
        if self.name == "dense":
            return autoencoder.generate(folder, **ACCUMULATED)
        if self.name == "transformer":
            return transformer.generate(folder, **ACCUMULATED)
        if self.name == "quantized":
            return head_behind_8_bits(folder)
        return small_convnet(folder)


RECIPES = (Recipe("dense", 4900), Recipe("convolutional", 1900, 9000), Recipe("transformer", 2700))


QUANTIZED = (Recipe("quantized", 620),)
"""Cases with a part of 8 bits, which have a table of their own."""


def head_behind_8_bits(folder: Path) -> Path:
    """A trained layer of floats behind convolutions, a sum, pools, a join and a product of 8 bits over 7x7 images."""
    net = Net((1, 3, 7, 7), np.random.default_rng(4))
    net.conv(6, 3, 3, 3, pads=[1, 1, 1, 1])
    start = net.add("Relu")
    net.conv(6, 1, 3, 3, group=6, pads=[1, 1, 1, 1])
    net.conv(6, 6, 1, 1)
    total = net.add("Add", net.last, start)
    net.add("Concat", total, start, axis=1)
    net.add("LeakyRelu", alpha=0.1)
    net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("AveragePool", kernel_shape=[2, 2], strides=[1, 1])
    net.add("Flatten")
    net.gemm(9, 48)
    net.add("Relu")
    head = net.gemm(5, 9)
    folder.mkdir(parents=True, exist_ok=True)
    source, kinds = net.save(folder / "floats.onnx"), ("QUInt8", "QInt8", True)
    path = written(source, net.shape, "QDQ", kinds, folder / "quantized.onnx", [head])
    report = build_train_graph(path, "cross_entropy", "sgd", 0.05, "", folder, samples=4, seed=1, **ACCUMULATED)
    return report.train


def small_convnet(folder: Path) -> Path:
    """ResNet8 and DSCNN in little: a residual block and a separable one over 9x9 images, with batch norm.

    Odd extents leave tiles at the border that are shorter than their slots.
    """
    net = ConvNet("small_convnet", (1, 3, 9, 9), 0, True)
    net.conv("stem", 5, (3, 3))
    shortcut = net.relu("stem.relu")
    net.conv("block.first", 5, (3, 3))
    net.relu("block.first.relu")
    net.conv("block.second", 5, (3, 3))
    net.node("Add", "block.add", net.x, shortcut)
    net.relu("block.relu")
    net.separable("separable", 7, 2)
    net.node("GlobalAveragePool", "pool", net.x)
    net.classes(5)
    return net.case(folder, 4, 1, learning_rate=0.05, **ACCUMULATED)


@dataclass(frozen=True)
class Buffer:
    """Bytes of a level that are in use in a step: a home, or the slots of one of its operands (`arg`)."""

    name: str
    level: int
    start: int
    end: int
    storage: str
    arg: str


@dataclass(frozen=True, eq=False)
class Program:
    """A built program with the layer in it; faults are drawn from its plan and census."""

    name: str
    case: Case
    plan: Plan
    directory: Path

    @cached_property
    def memory(self) -> MemoryNames:
        """Addresses as the simulator has them."""
        return MemoryNames(self.plan, target_of(self.plan.options))

    @cached_property
    def census(self) -> census.Census:
        """Census of the right program's transfers and kernel calls."""
        path = self.directory / "census.txt"
        self.run("", ("--dma-order", "early"), self.directory / "census.bin", {"DEPLOYER_CENSUS": str(path)})
        return census.read(path, {s.index: printed.layout(s.kernel) for s in self.plan.steps})

    @cached_property
    def expected(self) -> Expected:
        """Expected results of the program."""
        return pipeline.expectation(self.case, self.plan)

    def regions(self, step: PlanStep) -> tuple[printed.Region, ...]:
        """Return the regions of the operands' tiles."""
        return printed.regions(self.plan, self.memory, step)

    def crossed(self, step: PlanStep, region: printed.Region) -> tuple[PlanStep, ...]:
        """The earlier steps over which the first fetch into an operand's region goes on."""
        of = [
            c for c in self.plan.cross_step_transfers if (c.step, c.arg, c.direction) == (step.index, region.arg, "in")
        ]
        outermost = [r.hop for r in self.regions(step) if r.arg == region.arg][-1]
        return tuple(s for c in of if region.hop == outermost for s in self.plan.steps[c.at : step.index])

    def home(self, operand: PlanOperand) -> Buffer:
        """The home of an operand's tensor."""
        return self.storage(operand.storage)

    @cached_property
    def _homes(self) -> tuple[Buffer, ...]:
        number = {level.name: i for i, level in enumerate(self.plan.levels)}
        buffers = []
        for h in self.plan.homes:
            start = self.memory.address(h.level, h.offset)
            buffers.append(Buffer(h.storage, number[h.level], start, start + h.bytes, h.storage, ""))
        return tuple(buffers)

    def width(self, operand: PlanOperand) -> int:
        """Bytes of an element of an operand."""
        return DTYPES[next(h.type.dtype for h in self.plan.homes if h.storage == operand.storage)]

    def storage(self, name: str) -> Buffer:
        """The home of a storage."""
        return next(b for b in self._homes if b.storage == name)

    def kept(self) -> list[Buffer]:
        """Homes that outlive every pass."""
        return [b for h, b in zip(self.plan.homes, self._homes, strict=True) if h.persistent]

    def live(self, step: PlanStep) -> list[Buffer]:
        """Everything in use in a step, but for the argument tables; copies are among the homes."""
        homes = zip(self.plan.homes, self._homes, strict=True)
        buffers = [b for h, b in homes if h.persistent or h.first <= step.index <= h.last]
        storage = {o.arg: o.storage for o in step.operands}
        for r in (r for r in self.regions(step) if r.arg in storage):
            buffers.append(Buffer(f"{step.name}.{r.arg}", r.hop, r.start, r.start + r.bytes, storage[r.arg], r.arg))
        return buffers

    def dead(self, step: PlanStep, level: int) -> list[Span]:
        """(start, bytes) of what nobody uses in a step, the guards between buffers included."""
        size = self.memory.sizes[self.plan.levels[level].name]
        spans = sorted((b.start, b.end) for b in self.live(step) if b.level == level)
        if level == 0 and self.plan.table_bytes:
            spans.insert(0, (0, self.memory.table_area[1]))
        packing_slack, at = [], 0
        for start, end in [*spans, (size, size)]:
            if start - at >= 4:
                packing_slack.append((at, start - at))
            at = max(at, end)
        return packing_slack

    def command(self, flags: tuple[str, ...], output: Path) -> list[str]:
        """The command that runs it."""
        files = ["--input", str(self.directory / "input.bin"), "--output", str(output)]
        return [str(self.directory / "network"), *files, *flags]

    def run(
        self, fault: str, flags: tuple[str, ...], output: Path, extra: dict[str, str] | None = None, limit: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run it with a fault; subprocess.TimeoutExpired where it does not end."""
        environment = {**os.environ, **({"DEPLOYER_FAULT": fault} if fault else {}), **(extra or {})}
        return subprocess.run(
            self.command(flags, output),
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=limit,
            check=False,
        )


def walk(step: PlanStep) -> Iterator[dict[str, Span]]:
    """The tiles of a step in the order of its kernel calls."""
    cut = {d.name: nested(d.size, d.outer, d.tile) for d in step.dims}
    outer = step.staging.order if step.staging else ()

    def tiles(
        names: tuple[str, ...], part: dict[str, tuple[Span, ...]], tile: dict[str, Span]
    ) -> Iterator[dict[str, Span]]:
        if not names:
            yield dict(tile)
            return
        for piece in part[names[0]]:
            yield from tiles(names[1:], part, {**tile, names[0]: piece})

    def parts(names: tuple[str, ...], part: dict[str, tuple[Span, ...]]) -> Iterator[dict[str, tuple[Span, ...]]]:
        if not names:
            yield {**{n: c[0][1] for n, c in cut.items()}, **part}
            return
        for _, pieces in cut[names[0]]:
            yield from parts(names[1:], {**part, names[0]: pieces})

    for part in parts(outer, {}):
        yield from tiles(tuple(d.name for d in step.dims), part, {})


@contextmanager
def _layer_linked(words: list[str]) -> Iterator[None]:
    """The compiler's command with the linker's words, as a user gives it."""
    before = os.environ.get("CC")
    os.environ["CC"] = shlex.join([*shlex.split(before or "gcc"), *words])
    try:
        yield
    finally:
        if before is None:
            del os.environ["CC"]
        else:
            os.environ["CC"] = before


def make(recipe: Recipe, buffering: str, folder: Path) -> Program:
    """Compile a case with the layer between generated code and HAL."""
    train = folder / recipe.name
    folders = sorted(train.glob("*_train"))
    case = pipeline.load_training(folders[0] if folders else recipe.generate(train))
    budgets = {"L1": recipe.l1, **({"L2": recipe.l2} if recipe.l2 else {})}
    options = Options("host", buffering, budgets, outermost="L3" if recipe.l2 else "L2")
    tiling, plan = pipeline.plan_case(case, options)
    directory = folder / f"{recipe.name}-{buffering}"
    pipeline.write_case(case, tiling, plan, directory)
    (directory / "InjectPlan.c").write_text(printed.source(plan, target_of(plan.options)))
    link(plan, directory)
    return Program(f"{recipe.name} {buffering}", case, plan, directory)


def link(plan: Plan, directory: Path) -> None:
    """Build a plan's program with the layer."""
    layer = [directory / "InjectPlan.c", *sorted(HERE.glob("*.c"))]
    for kernel in printed.stand_ins(plan):
        files = generate.kernel_files(kernel)
        for name, text in files.items():
            (directory / name).write_text(text)
        tools = build.toolchain(target_of(plan.options))
        layer.append(build.kernel_source(kernel.symbol, tools, directory).written(directory))
    with _layer_linked([f"-I{HERE}", *printed.wrap_words()]):
        build.build_program(
            plan, directory, sources=[*generate.sources(plan), *(str(path.resolve()) for path in layer)]
        )
