"""The verifier of programs: a sound one passes, each broken one is refused under the rule it breaks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.core.errors import VerifyFailed
from deployer.core.ir import Graph, Node, Program, Tensor, TensorType
from deployer.verify.program import verify_program
from DeployTest.support.graphs.small_graphs import BUFFER, TRAIN, Case, node

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The small training case with a view and a constant in it."""
    nodes = (
        node("Constant", (), ("one",), value_floats=[1.0, 1.0, 1.0]),
        node("Unsqueeze", ("x",), ("x3",), axes=[0]),
        node("Squeeze", ("x3",), ("x2",), axes=[0]),
        node("Mul", ("x2", "one"), ("x1",), "scale"),
        node("Gemm", ("x1", "w"), ("y",), "fc", transB=1),
    )
    return Case(train=replace(TRAIN, nodes=(*nodes, *TRAIN.nodes[1:]))).program(tmp_path)


def tensor(program: Program, name: str, /, **changes: object) -> Program:
    """The program with one tensor changed."""
    changed = replace(program.tensors[name], **changes)  # type: ignore[arg-type]
    return replace(program, tensors={**program.tensors, name: changed})


def nodes(program: Program, graph: int, edit: Callable[[tuple[Node, ...]], tuple[Node, ...]]) -> Program:
    """The program with the nodes of one graph edited."""
    graphs = list(program.graphs)
    graphs[graph] = Graph(graphs[graph].name, edit(graphs[graph].nodes))
    return replace(program, graphs=tuple(graphs))


def node_change(program: Program, op: str, /, **changes: object) -> Program:
    """The program with the first training node of an op changed."""
    at = next(i for i, n in enumerate(program.graphs[0].nodes) if n.op == op)
    changed = replace(program.graphs[0].nodes[at], **changes)  # type: ignore[arg-type]
    return nodes(program, 0, lambda all_: (*all_[:at], changed, *all_[at + 1 :]))


def without(program: Program, name: str) -> Program:
    """The program with one tensor missing."""
    return replace(program, tensors={k: t for k, t in program.tensors.items() if k != name})


def with_tensor(program: Program, added: Tensor) -> Program:
    """The program with one more tensor."""
    return replace(program, tensors={**program.tensors, added.name: added})


def with_dead_node(program: Program) -> Program:
    """A node whose result nobody reads."""
    grown = with_tensor(program, Tensor("r", program.tensors["y"].type, "value", "r"))
    return nodes(grown, 0, lambda all_: (*all_, Node("dead", "Relu", ("y",), ("r",))))


def loss_without_weight(program: Program) -> Program:
    """The weight only meets the gradient: y is made from the buffer."""
    return node_change(program, "Gemm", inputs=("x1", BUFFER))


def stale_read(program: Program) -> Program:
    """The optimizer reads the weight after it has changed it."""
    grown = with_tensor(program, Tensor("again", program.tensors["w"].type, "value", "w"))
    grown = replace(grown, updated={"again": "w"})
    return nodes(grown, 1, lambda all_: (*all_, Node("twice", "SGD", ("w", BUFFER), ("again",))))


def without_accumulation(program: Program) -> Program:
    """No node of the training graph writes the accumulator."""
    shorter = nodes(program, 0, lambda all_: tuple(n for n in all_ if n.name in ("scale", "fc", "MSELoss_loss")))
    gone = {x for n in program.graphs[0].nodes for x in n.outputs} - {x for n in shorter.nodes for x in n.outputs}
    return replace(shorter, tensors={k: t for k, t in shorter.tensors.items() if k not in gone})


def with_empty(program: Program) -> Program:
    """A constant without elements."""
    return with_tensor(program, Tensor("empty", TensorType("float32", (0,)), "constant", "empty", b""))


Change = Callable[[Program], Program]
BROKEN: dict[str, tuple[str, Change]] = {
    "filed under another name": ("ssa", lambda p: tensor(p, "y", name="z")),
    "missing tensor": ("ssa", lambda p: without(p, "y")),
    "node name twice": ("ssa", lambda p: node_change(p, "MSELoss", name="fc")),
    "role lists": ("ssa", lambda p: replace(p, weights=())),
    "flag": ("ssa", lambda p: replace(p, flag="")),
    "output": ("ssa", lambda p: replace(p, outputs=("nothing",))),
    "held": ("ssa", lambda p: replace(p, held=("w",))),
    "two producers": ("producer", lambda p: nodes(p, 0, lambda n: (*n, replace(n[0], name="copy")))),
    "no producer": ("producer", lambda p: nodes(p, 0, lambda n: n[1:])),
    "producer of an input": ("producer", lambda p: node_change(p, "Mul", outputs=("t",))),
    "storage goes round": ("storage", lambda p: tensor(p, "x3", storage="x2")),
    "storage missing": ("storage", lambda p: tensor(p, "x3", storage="nothing")),
    "storage too small": ("storage", lambda p: tensor(p, "x3", storage="t")),
    "storage of a weight": ("storage", lambda p: tensor(p, "w", storage=BUFFER)),
    "in place elsewhere": ("storage", lambda p: tensor(p, "w_out", storage="w_out")),
    "in place without leave": ("storage", lambda p: tensor(p, "x1", storage="x2")),
    "in place behind an absent output": (
        "storage",
        lambda p: node_change(tensor(p, "x1", storage="x2"), "Mul", outputs=("", "x1")),
    ),
    "updated elsewhere": ("storage", lambda p: replace(p, updated={"loss": "w"})),
    "constant without data": ("storage", lambda p: tensor(p, "one", data=None)),
    "constant cut": ("storage", lambda p: tensor(p, "one", data=b"1234")),
    "value with data": ("storage", lambda p: tensor(p, "y", data=bytes(32))),
    "used before made": ("order", lambda p: nodes(p, 0, lambda n: (n[1], n[0], *n[2:]))),
    "read after overwritten": ("order", stale_read),
    "read across graphs": (
        "order",
        lambda p: nodes(p, 1, lambda n: (replace(n[0], inputs=("w", "w_grad")),)),
    ),
    "unknown operator": ("typed", lambda p: node_change(p, "MSELoss", op="NoSuchOp")),
    "operator without kernel": ("typed", lambda p: node_change(p, "Mul", op="Identity")),
    "no elements": ("typed", with_empty),
    "another type": ("typed", lambda p: tensor(p, "y", type=TensorType("float32", (4, 2)))),
    "inputs that do not fit": ("typed", lambda p: node_change(p, "Gemm", attrs={})),
    "dead node": ("reachable", with_dead_node),
    "loss without weight": ("reachable", loss_without_weight),
    "no accumulation": ("reachable", without_accumulation),
    "update without accumulator": (
        "reachable",
        lambda p: nodes(p, 1, lambda n: (replace(n[0], inputs=("w", "w")),)),
    ),
}


def test_sound_program_passes(program: Program) -> None:
    verify_program(program)
    assert program.storage("x2") == "x"


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_program_is_refused(program: Program, fault: str) -> None:
    rule, change = BROKEN[fault]
    with pytest.raises(VerifyFailed) as caught:
        verify_program(change(program))
    assert caught.value.rule == rule, str(caught.value)
    assert str(caught.value).startswith(f"VerifyFailed: [{rule}]")


def test_faulty_names_are_sorted(program: Program) -> None:
    """Of several accumulators that nothing writes, every run names the same one."""
    names, kind = [f"a{i:02}" for i in range(20)], program.tensors["w"].type
    for name in names:
        program = with_tensor(program, Tensor(name, kind, "accumulator", name))
    sums = [f"s{i:02}" for i in range(len(names))]
    for name in sums:
        program = with_tensor(program, Tensor(name, kind, "value", name))
    program = replace(program, accumulators=(*program.accumulators, *names))
    adds = [
        Node(f"add_{new}", "Add", (old, name), (new,))
        for old, name, new in zip([BUFFER, *sums], names, sums, strict=False)
    ]
    broken = nodes(program, 1, lambda n: (*adds, replace(n[0], inputs=("w", sums[-1]))))
    with pytest.raises(VerifyFailed, match="no node of the training graph writes accumulator 'a00'"):
        verify_program(broken)
