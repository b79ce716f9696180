"""One node per kernel as a program, and a build of it in which any kernel call can be made to write astray."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.codegen import generate
from deployer.codegen.c_names import MemoryNames
from deployer.core.access import strides
from deployer.core.cost import rounded
from deployer.core.ir import DTYPES, Graph, Node, Program, Role, Tensor
from deployer.core.operator import registry
from deployer.core.plan import Plan, PlanOperand, PlanStep, target_of
from deployer.running import build
from deployer.testing.bench import BenchStep, step_of

ELEMENT = 4
UNFIT = ("accumulate_f32",)
"""Kernels that need the lazy-reset flag, which inference graphs do not have: a training case covers them."""

PLANT = r"""
#include "hal.h"
#include "hal_sim.h"
#include <stdlib.h>
static uint32_t step, calls;
static hal_kernel_t right;
static uint32_t number(const char *name) { return (uint32_t)strtoul(getenv(name), NULL, 10); }
/* Turns one bit of the word at the given level and address, as the last core's work. */
static void wrong(const void *args) {
    right(args);
    if (hal_core_id() + 1 < hal_core_count()) return;
    *(uint32_t *)(hal_sim.levels[number("LEVEL")].memory + number("ADDRESS")) ^= 1;
}
void planted_step(uint32_t index) {
    step = index;
    calls = 0;
    hal_step(index);
}
void planted_parallel(hal_kernel_t kernel, const void *args) {
    right = kernel;
    const uint32_t here = getenv("STEP") && step == number("STEP") && calls == number("CALL");
    calls++;
    hal_parallel(here ? wrong : kernel, args);
}
"""
WRAPPED = """
void planted_step(uint32_t index);
void planted_parallel(hal_kernel_t kernel, const void *args);
#define hal_step planted_step
#define hal_parallel planted_parallel
"""


def samples() -> dict[str, BenchStep]:
    """The first sample of each kernel that an inference graph can hold, by the kernel's symbol."""
    steps_by_symbol: dict[str, BenchStep] = {}
    for operator in registry().values():
        if operator.kernel is None or operator.kernel.symbol in UNFIT:
            continue
        steps = (step_of(operator, sample) for sample in operator.samples())
        steps_by_symbol.setdefault(operator.kernel.symbol, next(s for s in steps if s.access.operands))
    return steps_by_symbol


def program_of(steps: dict[str, BenchStep]) -> tuple[Program, dict[str, np.ndarray]]:
    """All nodes as one graph whose inputs are all theirs, and the inputs' values."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, np.ndarray] = {}
    nodes, outputs, weights = [], [], []
    for symbol, step in steps.items():
        names = {n: f"{symbol}.{n}" for n in (*step.node.inputs, *step.node.outputs) if n}
        source = {out: step.node.inputs[i] for o, i in step.operator.inplace.items() for out in [step.node.outputs[o]]}
        for n, name in names.items():
            has_value = n in step.values
            storage = names[source[n]] if n in source else name
            role: Role = "weight" if n in source.values() else "data" if has_value else "value"
            tensors[name] = Tensor(name, step.types[n], role, storage)
            weights += [name] if role == "weight" else []
            if has_value:
                values[name] = step.values[n].astype(step.types[n].dtype)
        nodes.append(_renamed(step.node, symbol, names))
        outputs += [names[n] for n in step.node.outputs if n]
    graph = Graph("infer", tuple(nodes))
    data = tuple(name for name in values if name not in weights)
    return Program(tensors, (graph,), data, tuple(weights), (), "", tuple(outputs), {}), values


def _renamed(node: Node, name: str, names: dict[str, str]) -> Node:
    def change(old: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(n, "") for n in old)

    return replace(node, name=name, inputs=change(node.inputs), outputs=change(node.outputs))


def build_with_plant(case: pipeline.Case, plan: Plan, directory: Path) -> None:
    """Build a written case so that STEP, CALL, LEVEL and ADDRESS in the environment make a kernel call write there."""
    (directory / "Plant.c").write_text(PLANT)
    for path in directory.glob("*Network.c"):
        text = path.read_text()
        path.write_text(text.replace('#include "Network.h"\n', f'#include "Network.h"\n#include "hal.h"\n{WRAPPED}', 1))
    build.build_program(plan, directory, sources=[*generate.sources(plan), "Plant.c"])


@dataclass(frozen=True)
class Stray:
    """A write of one element: by which call of which step, where, and near or in what."""

    step: PlanStep
    call: int
    level: int
    address: int
    where: str


def run_with_stray(directory: Path, stray: Stray | None, *flags: str) -> tuple[int, str]:
    """Exit code and last words of a run with the stray write planted."""
    fields = (
        {"STEP": stray.step.index, "CALL": stray.call, "LEVEL": stray.level, "ADDRESS": stray.address} if stray else {}
    )
    command = [directory / "network", "--input", directory / "input.bin", "--output", directory / "output.bin", *flags]
    environment = os.environ | {name: str(value) for name, value in fields.items()}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return run.returncode, run.stderr.strip()


def first_box(step: PlanStep, operand: PlanOperand) -> tuple[tuple[int, int], ...]:
    """(first index, length) per axis of the first tile's box."""
    tile = {d.name: (0, min(d.tile, d.outer)) for d in step.dims}
    return tuple(axis.span(tile, extent) for axis, extent in zip(operand.axes, operand.view, strict=True))


def overflows(plan: Plan) -> Iterator[Stray]:
    """By each first call of a step and each operand it writes: one element before its box, past it, between its runs
    where it has gaps, and into the other part of its slot."""
    memory = MemoryNames(plan, target_of(plan.options))
    inner, number = plan.levels[0].name, {use.name: i for i, use in enumerate(plan.levels)}
    for step in plan.steps:
        for o in step.operands:
            if o.mode == "in":
                continue
            box = first_box(step, o)
            count = int(np.prod([n for _, n in box], dtype=int))
            if not count:
                continue
            name, level = f"'{o.arg}' of step {step.index}", 0
            size = DTYPES[plan.home(o.storage).type.dtype]
            if o.slots:
                start = memory.address(inner, o.slot_offset)
                end = start + rounded(count * size, ELEMENT)
                if o.slots > 1:
                    yield Stray(step, 0, 0, start + o.slot_bytes, f"the other part of {name}")
            else:
                home = plan.home(o.storage)
                steps, level = strides(o.view), number[home.level]
                first = sum(f * s for (f, _), s in zip(box, steps, strict=True))
                start = memory.address(home.level, home.offset) + first * size
                end = start + rounded(
                    (sum((n - 1) * s for (_, n), s in zip(box, steps, strict=True)) + 1) * size, ELEMENT
                )
                run = box[-1][1] * size
                if end - start > rounded(count * size, ELEMENT) and box[-1][1] < o.view[-1]:
                    yield Stray(step, 0, level, start + run, f"between the runs of {name}")
            yield Stray(step, 0, level, start - ELEMENT, f"before {name}")
            if end < start + o.slots * o.slot_bytes and rounded(count * size, ELEMENT) == o.slot_bytes:
                continue  # that is the other part
            yield Stray(step, 0, level, end, f"past {name}")
