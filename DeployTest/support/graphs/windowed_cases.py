"""Windowed operators as programs of one node, and tilings that no solver would choose."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.core.access import order_dims, tiles
from deployer.core.errors import OptionProblem
from deployer.core.ir import Node, Program
from deployer.core.operator import Array
from deployer.core.plan import Plan, Step, StepTiling, Tiling
from deployer.frontend import check
from deployer.frontend.raw_graph import DeclaredTypes, FileInput, RawGraph, Source
from deployer.running.run import Outcome
from deployer.verify.reference import run_inference
from DeployTest.support.tolerances import table

TOLERANCE = table()["several"]["float32"]
CASES = {
    "conv": ("Conv", [(1, 4, 9, 9), (6, 4, 3, 3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "conv dilated": ("Conv", [(1, 3, 11, 8), (4, 3, 3, 3)], {"dilations": [2, 1], "pads": [2, 0, 1, 1]}),
    "conv depthwise": ("Conv", [(2, 6, 7, 7), (6, 1, 3, 3)], {"group": 6, "pads": [1, 1, 1, 1]}),
    "conv far padding": ("Conv", [(1, 2, 4, 5), (3, 2, 2, 3)], {"pads": [4, 1, 3, 5]}),
    "conv whole at times": ("Conv", [(1, 3, 6, 1), (3, 3, 7, 1)], {"pads": [3, 0, 3, 0]}),
    "grad x strided": ("ConvGradX", [(1, 6, 5, 5), (6, 4, 3, 3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "grad x 1x1 strided": ("ConvGradX", [(1, 2, 16, 16), (2, 2, 1, 1)], {"strides": [2, 2]}),
    "grad x 3x3 strided": ("ConvGradX", [(1, 2, 15, 15), (2, 1, 3, 3)], {"strides": [3, 2], "pads": [1, 1, 1, 1]}),
    "grad x gaps": ("ConvGradX", [(1, 2, 3, 3), (2, 2, 2, 1)], {"strides": [5, 4], "input_shape": [14, 12]}),
    "grad w": (
        "ConvGradW",
        [(1, 6, 5, 5), (1, 4, 9, 9)],
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]},
    ),
    # What another system gets wrong: only the last spatial tile's share, and every position instead of every other.
    "grad w 3x3": ("ConvGradW", [(1, 5, 12, 12), (1, 3, 12, 12)], {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
    "grad w 1x1 strided": ("ConvGradW", [(1, 6, 8, 8), (1, 5, 16, 16)], {"strides": [2, 2], "kernel_shape": [1, 1]}),
    "max pool gaps": ("MaxPool", [(1, 3, 11, 9)], {"kernel_shape": [2, 1], "strides": [4, 3]}),
    "average pool gaps": ("AveragePool", [(2, 2, 10, 7)], {"kernel_shape": [1, 2], "strides": [3, 5]}),
    "average pool grad gaps": (
        "AveragePoolGrad",
        [(2, 3, 3, 2)],
        {"kernel_shape": [1, 2], "strides": [4, 5], "input_shape": [2, 3, 10, 8]},
    ),
    "max pool grad overlap": (
        "MaxPoolGrad",
        [(2, 2, 5, 4), (2, 2, 9, 8)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "max pool grad dilated": (
        "MaxPoolGrad",
        [(1, 2, 4, 3), (1, 2, 9, 7)],
        {"kernel_shape": [2, 3], "strides": [2, 2], "dilations": [3, 2], "pads": [1, 1, 0, 1]},
    ),
    "average pool grad overlap": (
        "AveragePoolGrad",
        [(2, 2, 4, 4)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "input_shape": [2, 2, 8, 7]},
    ),
    "max pool grad gaps": ("MaxPoolGrad", [(2, 3, 3, 1), (2, 3, 10, 6)], {"kernel_shape": [1, 2], "strides": [4, 5]}),
    "pad": ("Pad", [(2, 3, 5, 4)], {"pads": [1, 0, 3, 6, 0, 2, 4, 1], "value": 1.5}),
    "pad infinite": ("Pad", [(5, 4)], {"pads": [3, 0, 0, 7], "value": float("-inf")}),
    "pad cuts": ("Pad", [(9, 4, 8)], {"pads": [-3, 2, -1, 2, 1, -4]}),
    "slice": ("Slice", [(4, 5, 6, 7)], {"starts": [1, 0, 2, 3], "ends": [3, 4, 5, 7]}),
    "slice steps": ("Slice", [(3, 13, 17)], {"starts": [2, 1], "ends": [13, 16], "axes": [1, 2], "steps": [3, 4]}),
    "slice grad": (
        "SliceGrad",
        [(2, 4, 4)],
        {"input_shape": [3, 13, 17], "starts": [1, 2, 1], "steps": [1, 3, 5]},
    ),
    "concat": ("Concat", [(6, 3, 5), (6, 4, 5)], {"axis": 1}),
    "concat front": ("Concat", [(4, 7), (9, 7), (2, 7)], {"axis": 0}),
}
EMPTY = ("conv far padding", "grad x gaps", "pad", "pad infinite", "slice grad", "concat", "concat front")
"""Those of which some tile has an operand with an empty box."""

IMAGES, CHANNELS = (3, 2, 20, 30), (2,)
LARGE = {
    "sum": ("ReduceSum", [IMAGES], {"axes": [0, 2, 3], "keepdims": 0}),
    "mean": ("ReduceMean", [IMAGES], {"axes": [0, 2, 3], "keepdims": 0}),
    "variance": ("ChannelVariance", [IMAGES, CHANNELS], {}),
    "batch norm": ("BatchNormInternal", [IMAGES, CHANNELS, CHANNELS, CHANNELS, CHANNELS], {}),
    "batch norm grad": ("BatchNormalizationGrad", [IMAGES, IMAGES, CHANNELS, CHANNELS, CHANNELS], {}),
    "grad w": ("ConvGradW", [(2, 3, 18, 26), (2, 2, 20, 28)], {"kernel_shape": [3, 3]}),
    "grad w strided": ("ConvGradW", [(2, 2, 9, 40), (2, 2, 18, 80)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max pool grad": ("MaxPoolGrad", [(2, 1, 10, 15), (2, 1, 20, 30)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max pool grad overlap": (
        "MaxPoolGrad",
        [(2, 1, 10, 14), (2, 1, 19, 27)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "average pool grad": (
        "AveragePoolGrad",
        [(2, 1, 10, 14)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "input_shape": [2, 1, 19, 27]},
    ),
    "global pool": ("GlobalAveragePool", [(2, 1, 20, 30)], {}),
    "global pool grad": ("GlobalAveragePoolGrad", [(2, 1, 1, 1)], {"input_shape": [2, 1, 20, 30]}),
    "softmax": ("Softmax", [(2, 1500)], {}),
    "log softmax": ("LogSoftmax", [(1, 1500, 2)], {"axis": 1}),
    "softmax grad": ("SoftmaxGrad", [(2, 1500), (2, 1500)], {}),
    "layer norm": ("LayerNormalization", [(3, 600), (600,), (600,)], {"axis": -1}),
    "layer norm grad": ("LayerNormalizationGrad", [(3, 600), (3, 600), (600,), (3, 1), (3, 1)], {"axis": -1}),
}
"""Images of which not even one channel fits a small L1, and rows that do not fit it."""


def small_l1(name: str) -> int:
    """A small L1 for one of LARGE; tiles of those that sum products hold a block of them."""
    return {"grad w": 3000, "grad w strided": 5000}.get(name, 1100)


class Windowed:
    """A program of a node for each name, all with inputs of their own, and what must come out of each."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder, self.names = folder, names
        self.values: dict[str, Array] = {}
        nodes = tuple(self._node(number, name) for number, name in enumerate(names))
        inputs = tuple(FileInput(n, DeclaredTypes("float32", x.shape)) for n, x in self.values.items())
        outputs = tuple(node.outputs[0] for node in nodes)
        self.program: Program = check.check_program(
            Source(RawGraph("infer", nodes, inputs, outputs, {}, {}, {}, {}), None)
        )
        wanted = run_inference(self.program, self.values, np.float64)
        self.wanted = {name: wanted[output] for name, output in zip(names, outputs, strict=True)}

    def _node(self, number: int, name: str) -> Node:
        op, shapes, attrs = (CASES | LARGE)[name]
        draw = np.random.default_rng(1)
        drawn = {f"x{number}_{i}": draw.standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)}
        self.values.update(drawn)
        attributes = {key: tuple(v) if isinstance(v, list) else v for key, v in attrs.items()}
        return Node(f"node{number}", op, tuple(drawn), (f"y{number}",), attributes)

    def run(self, tiling: Tiling, plan: Plan, label: str, *runs: Sequence[str]) -> list[dict[str, bytes]]:
        """Build once, and run with each of these flags: right to the reference, by the model's clock where it is one.

        The bits of each run's results, by name.
        """
        case = pipeline.Case(self.folder, self.program, None, self.values, {}, "")
        pipeline.write_case(case, tiling, plan, self.folder / label)
        pipeline.build_case(plan, self.folder / label)
        return [self._checked(plan, pipeline.execute(case, plan, self.folder / label, flags)) for flags in runs or [()]]

    def with_empty_box(self, tiling: Tiling) -> set[str]:
        """The names of whose tiles some touches nothing of an operand; a node may have become several steps."""
        steps = {step.partition("_")[0] for step in _with_empty_box(tiling)}
        return {name for number, name in enumerate(self.names) if f"node{number}" in steps}

    def _checked(self, plan: Plan, outcome: Outcome) -> dict[str, bytes]:
        if outcome.bench["clock"] == "model":
            assert int(outcome.bench["infer_cycles"]) == plan.cycles("infer")
        results = {name: outcome.arrays[f"y{number}"] for number, name in enumerate(self.names)}
        for name, result in results.items():
            np.testing.assert_allclose(result, self.wanted[name], **TOLERANCE, err_msg=name)
        return {name: result.tobytes() for name, result in results.items()}


def drawn(tiling: Tiling, count: int) -> Iterator[tuple[Tiling, Plan]]:
    """The tiling with nothing resident and other tile lengths, rather 1 than long, single- or double-buffered."""
    draw = np.random.default_rng(5)
    while count:
        edited = _edited(tiling, draw)
        try:
            plan = pipeline.place_edited(edited, pipeline.ONCE)
        except OptionProblem:
            continue  # more strided levels than a transfer has
        yield edited, plan
        count -= 1


def cut(tiling: Tiling, *lengths: int) -> Tiling:
    """The tiling of one step with tiles of these lengths, one for each dim, single-buffered with nothing resident."""
    [step], [choice] = tiling.lifetimes.schedule.steps, tiling.steps
    tile = dict(zip((d.name for d in step.access.dims), lengths, strict=True))
    return replace(tiling, resident=(), steps=(_with_tile(step, choice, tile, False),))


def has_empty_box(tiling: Tiling) -> bool:
    """Whether some tile touches nothing of an operand."""
    return bool(_with_empty_box(tiling))


def _with_empty_box(tiling: Tiling) -> set[str]:
    """The names of the steps of whose tiles some touches nothing of an operand."""
    found = set()
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        for tile in tiles(step.access, choice.tile, choice.order):
            if any(length == 0 for o in step.access.operands for _, length in o.box(tile)):
                found.add(step.name)
                break
    return found


def _edited(tiling: Tiling, draw: np.random.Generator) -> Tiling:
    double, steps = bool(draw.integers(2)), []
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        split = [d for d in step.access.dims if d.kind == "parallel"]
        tile = step.access.sizes
        tile.update((d.name, int(min(draw.integers(1, d.size + 1, 2)))) for d in split)
        steps.append(_with_tile(step, choice, tile, double))
    return replace(tiling, resident=(), steps=tuple(steps))


def _with_tile(step: Step, choice: StepTiling, tile: Mapping[str, int], double: bool) -> StepTiling:
    """The step's tiling with these lengths; double-buffered where that is asked for and an operand changes."""
    changes = {o.arg: any(tile[n] < step.access.dim(n).size for n in o.dims) for o in step.access.operands}
    pipelined = double and any(changes.values())
    slots = {arg: 2 if pipelined and changed else 1 for arg, changed in changes.items()}
    buffering = "double" if pipelined else "single"
    return replace(choice, tile=dict(tile), order=order_dims(step.access), buffering=buffering, slots=slots)
