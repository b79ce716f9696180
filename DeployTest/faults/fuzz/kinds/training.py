"""Training cases: both graphs and the arrays edited; forward models differentiated, their gradients against slopes."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from deployer import pipeline
from deployer.core.ir import Node, Program
from deployer.frontend import check, parse
from deployer.frontend.dataset import Dataset
from deployer.training import train_graph
from deployer.verify.program import verify_program
from deployer.verify.reference import Memory, run_graph, run_training
from DeployTest.faults.fuzz import bases
from DeployTest.faults.fuzz.building import command
from DeployTest.faults.fuzz.models import chain
from DeployTest.faults.fuzz.output_text import random_words
from DeployTest.faults.fuzz.reference import compare
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Finding, Trial, contained
from DeployTest.support.tolerances import table

from .graph import damage, prepare, shown

STEP = 1e-5
ENTRIES = 4
"""Elements of each gradient that are compared."""


def start(trial: Trial) -> tuple[Path, Path]:
    """A valid training case in the input's folder: train and optimizer folder."""
    bases.write(bases.training(trial.draw("case").number(0, bases.TRAINING - 1)), trial.case)
    return trial.case / "m_train", trial.case / "m_optimizer"


@kind(12)
def training(trial: Trial) -> str:
    """A training case with the graph of the pass, or of the update, edited or damaged."""
    train, optimizer = start(trial)
    draw = trial.draw("which")
    path = (train if draw.chance(0.7) else optimizer) / "network.onnx"
    model = onnx.load(str(path))
    if draw.chance(0.75):
        prepare(trial, model)
        trial.edit("graph", model)
        path.write_bytes(model.SerializeToString())
    else:
        path.write_bytes(damage(trial, path.read_bytes()))
    with contained(trial):
        case = pipeline.load_training(trial.case)
    if trial.build:
        return build(trial)
    assert case.dataset is not None
    agree(case.program, case.dataset)
    return forward_part(trial, case, train / "network.onnx")


def agree(program: Program, dataset: Dataset) -> None:
    """The run in float32 and in float64 are one run: losses and weights differ by rounding alone."""
    with np.errstate(all="ignore"):
        losses, weights = run_training(program, dataset, np.float32)
        largest = 0.0

        def seen(node: Node, results: Sequence[np.ndarray]) -> None:
            nonlocal largest
            largest = max([largest, *(float(np.abs(np.nan_to_num(x)).max(initial=0.0)) for x in results)])

        exact_losses, exact = run_training(program, dataset, np.float64, seen)
    for name in weights:
        finite = np.array_equal(np.isfinite(weights[name]), np.isfinite(exact[name]))
        if not finite and largest < math.sqrt(table()["fuzz"]["overflow"]):
            raise Finding("different", f"weight is finite in one precision alone: {name}")
    assert len(losses) == len(exact_losses)


def forward_part(trial: Trial, case: pipeline.Case, path: Path) -> str:
    """Compare the operands of the loss's node with ONNX Runtime, if all nodes before it are ONNX's."""
    model = onnx.load(str(path))
    loss = case.program.outputs[0]
    maker = {o: n for n in model.graph.node for o in n.output if o}
    if loss not in maker:
        return "loss without a node"
    ends = [maker[loss].input[0]] if maker[loss].input else []
    ends = [e for e in ends if e in maker]
    if not ends:
        return "nothing before the loss"
    needed, open_names = set(), list(ends)
    while open_names:
        node = maker.get(open_names.pop())
        if node is not None and id(node) not in needed:
            needed.add(id(node))
            open_names += [i for i in node.input if i]
    nodes = [n for n in model.graph.node if id(n) in needed]
    read = {i for n in nodes for i in n.input}
    graph = model.graph
    for field, parts in (
        (graph.input, [v for v in graph.input if v.name in read]),
        (graph.output, [onnx.helper.make_empty_tensor_value_info(e) for e in ends]),
        (graph.initializer, [t for t in graph.initializer if t.name in read]),
        (graph.node, nodes),
        (graph.value_info, []),
    ):
        copies = [type(x).FromString(x.SerializeToString()) for x in parts]
        del field[:]
        field.extend(copies)
    cut = trial.case / "forward.onnx"
    cut.write_bytes(model.SerializeToString())
    program = check.check_program(parse.read_graphs(cut, None))
    assert case.dataset is not None
    feeds = {**case.dataset.weights, **dict(zip(case.program.data, case.dataset.sample(0), strict=True))}
    return compare(trial, program, cut, feeds, shown(cut))


def build(trial: Trial) -> str:
    """Through the command line: its verdict."""
    case = pipeline.load_training(trial.case)
    with np.errstate(all="ignore"):
        losses, weights = run_training(case.program, case.dataset, np.float64)  # type: ignore[arg-type]
        narrow, moved = run_training(case.program, case.dataset, np.float32)  # type: ignore[arg-type]
    every = [np.array(losses), np.array(narrow), *weights.values(), *moved.values()]
    if not all(np.isfinite(x).all() for x in every):
        return "not built: results are not finite"
    gold = {n: weights[n].astype(np.float32) for n in case.program.updated.values()}
    target = next(p for p in trial.case.rglob("outputs.npz"))
    np.savez(target, allow_pickle=False, **gold, loss=np.array(losses, np.float32))
    words = ["train", "-t", trial.case, "-o", trial.work / "out", *random_words(trial.draw("build"))]
    code, out, errors = command(trial, words, programs=True)
    if code in (0, 2):
        return "built and passed" if code == 0 else "not built: refused"
    worst = max(
        [*(float(np.abs(weights[n] - moved[n]).max(initial=0.0)) for n in gold), *np.abs(np.subtract(losses, narrow))]
    )
    if code == 1 and worst > table()["fuzz"]["conditioning"]:
        return "built: beyond the tolerance, and so is numpy's float32"
    raise Finding("wrong run" if code == 1 else f"exit {code}", f"{errors.strip()}\n{out.strip()}"[-3000:])


@kind(3)
def differentiated(trial: Trial) -> str:
    """A forward model, edited or not, with drawn options; what its training graph says are slopes of the loss."""
    draw = trial.draw("options")
    base = chain(trial.draw("model"), longest=4, standard=True)
    model = base.model()
    if draw.chance(0.8):
        model = bases.forward(trial.draw("model"))
    prepare(trial, model)
    if draw.chance(0.6):
        trial.edit("graph", model)
    path = trial.case / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with contained(trial):
        report = train_graph.build_train_graph(
            path,
            draw.one(("mse", "cross_entropy")),
            "sgd",
            draw.one((0.01, 0.1, 1.0)),
            draw.one(("", "", "", ".", "v0", "v1_1|v2")),
            trial.work,
            samples=draw.number(1, 3),
            n_accum=draw.number(1, 2),
            seed=draw.number(0, 9),
        )
    if trial.build:
        for folder in (report.train, report.optimizer):
            folder.rename(trial.case / folder.name)
        return build(trial)
    source = parse.read_graphs(report.train / "network.onnx", report.optimizer / "network.onnx")
    case = pipeline.load_training(report.train, changing=None)
    program = check.check_program(source, data_inputs=len(case.program.data))
    verify_program(program)
    assert case.dataset is not None
    return slopes(program, case.dataset, shown(path))


def slopes(program: Program, dataset: Dataset, text: str) -> str:
    """Compare drawn elements of each gradient with central differences in float64.

    Left out are kinks, elements nearer to zero than a step, as quotients by them jump there, and
    graphs with values so large that a step changes the loss by less than their rounding.
    """
    weights = {n: w.astype(np.float64) for n, w in dataset.weights.items()}
    gradients = _pass(program, dataset, weights)
    rounding = np.finfo(np.float64).eps * max(float(np.abs(x).max(initial=0.0)) for x in gradients.values())
    sums = {n: gradients[f"{n}_grad.accumulation.buffer"].copy() for n in program.updated.values()}
    generator = np.random.default_rng(0)
    limits = table()["fuzz"]
    largest = max((float(np.abs(g).max(initial=0.0)) for g in sums.values()), default=0.0)
    for name, gradient in sums.items():
        picked = {int(np.abs(gradient).argmax()), *generator.integers(0, gradient.size, ENTRIES).tolist()}
        for flat in sorted(picked):
            at = tuple(map(int, np.unravel_index(flat, gradient.shape)))
            if 0.0 < abs(weights[name][at]) < STEP:
                continue
            losses = [
                _loss(program, dataset, weights, name, at, step) for step in (-STEP, -STEP / 2, 0.0, STEP / 2, STEP)
            ]
            slope = (losses[4] - losses[0]) / (2 * STEP)
            fine = (losses[3] - losses[1]) / STEP
            sides = (losses[4] - losses[2]) / STEP, (losses[2] - losses[0]) / STEP
            bound = limits["difference"] * max(largest, abs(losses[2]), 1.0)
            if not np.isfinite(losses).all() or abs(sides[0] - sides[1]) > bound or abs(slope - fine) > bound / 8:
                continue
            if not rounding <= bound * STEP:
                continue
            if not abs(slope - gradient[at]) <= bound:
                raise Finding(
                    "gradient", f"of an element is {gradient[at]:.9g}, the slope {slope:.9g}\n{name}{at}\n{text}"
                )
    return "gradients equal slopes"


def _pass(program: Program, dataset: Dataset, weights: dict[str, np.ndarray]) -> Memory:
    memory = Memory(program, np.float64)
    memory.update(weights)
    memory.update({n: np.zeros(program.tensors[n].type.shape) for n in program.accumulators})
    memory.update(zip(program.data, dataset.sample(0), strict=True))
    memory[program.flag] = np.array([1])
    with np.errstate(all="ignore"):
        run_graph(program.graphs[0], memory)
    return memory


def _loss(
    program: Program, dataset: Dataset, weights: dict[str, np.ndarray], name: str, at: tuple[int, ...], step: float
) -> float:
    moved = {**weights, name: weights[name].copy()}
    moved[name][at] += step
    return float(_pass(program, dataset, moved)[program.outputs[0]].item())
