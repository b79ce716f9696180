"""Attention in steps that keep rows of scores: what becomes such steps, what stays, and the same bits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.errors import PlacementInfeasible
from deployer.core.operator import registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.fusions import attention
from deployer.planning import fuse
from deployer.testing.bench import bits, run_step, step_of
from DeployTest.support.building.cases import Built, compile_case, result_hash
from DeployTest.support.graphs.small_graphs import Model, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

MICROSOFT = "com.microsoft"
STEPS = ["AttentionRows", "AttentionQueryGrad", "AttentionKeyGrad"]
APART = Options(disabled_rewrites=("attention",))
RESULTS = ("y", "dq", "dk", "dv")


@dataclass(frozen=True)
class Attention:
    """Sizes of attention: heads of queries and keys, lengths, widths; whether masked, causal, stored by token."""

    length: int
    heads: tuple[int, int] = (2, 1)
    keys: int = 0
    width: tuple[int, int] = (5, 7)
    causal: bool = True
    mask: bool = False
    by_token: bool = False
    batch: int = 2

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the operands."""
        (heads, shared), (depth, width), keys = self.heads, self.width, self.keys or self.length
        found = {"q": (heads, self.length, depth), "k": (shared, keys, depth), "v": (shared, keys, width)}
        found["dy"] = (heads, self.length, width)
        return {n: (self.batch, *s) for n, s in found.items()}

    def model(self, gradient: bool = True, more: Sequence[object] = ()) -> Model:
        """Attention and its gradient, from a gradient that is an input."""
        names, before, after = {n: n for n in (*self.shapes, *RESULTS)}, [], []
        shapes = dict(self.shapes)
        if self.by_token:
            for name in names:
                names[name] = f"{name}_heads"
                ends = (name, names[name]) if name in shapes else (names[name], name)
                turned = node("Transpose", ends[:1], ends[1:], f"{name}_turned", perm=[0, 2, 1, 3])
                (before if name in shapes else after).append(turned)
            shapes = {n: (s[0], s[2], s[1], s[3]) for n, s in shapes.items()}
        operands = [names[n] for n in "qkv"]
        mask = ["mask"] if self.mask else []
        attrs = {"domain": MICROSOFT, "scale": 0.3}
        nodes = [
            node(
                "ScaledDotProductAttention", [*operands, *mask], (names["y"], "p"), "own", is_causal=int(self.causal),
                **attrs,
            ),
            node(
                "ScaledDotProductAttentionGrad", (names["dy"], *operands, "p"), [names[n] for n in RESULTS[1:]], "grad",
                **attrs,
            ),
        ]  # fmt: skip
        inputs = [value(n, s) for n, s in shapes.items() if gradient or n != "dy"]
        inputs += [value("mask", (self.length, self.keys or self.length))] if mask else []
        results = RESULTS if gradient else RESULTS[:1]
        before = before if gradient else before[:3]
        after = after if gradient else after[:1]
        nodes = (*before, *(nodes if gradient else nodes[:1]), *after, *more)
        return Model(tuple(nodes), tuple(inputs), tuple(value(n, None) for n in results))


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cost model says of the steps."""
    monkeypatch.setattr(attention, "is_quicker", lambda found, types, target: True)


def load(folder: Path, model: Model) -> pipeline.Case:
    """The model as a case with drawn inputs."""
    return pipeline.load_inference_case(model.save(folder / "model.onnx"))


def bits_apart(case: pipeline.Case, folder: Path) -> str:
    """The bits of the nodes apart."""
    tiling, plan = pipeline.plan_case(case, replace(APART, strategy="single"))
    pipeline.write_case(case, tiling, plan, folder)
    pipeline.build_case(plan, folder)
    return result_hash(Built(case, tiling, plan, folder).run())


CASES = {
    "heads": Attention(13, (3, 3), causal=False),
    "groups": Attention(13, (4, 2), keys=19),
    "causal": Attention(16),
    "masked": Attention(11, mask=True, causal=False),
    "masked, causal": Attention(19, (2, 2), mask=True),
    "by token": Attention(13, (4, 2), by_token=True),
    "more queries": Attention(19, keys=11),
}


@pytest.mark.parametrize("gradient", [True, False], ids=["gradient", "forward"])
@pytest.mark.parametrize("name", CASES)
def test_three_steps(name: str, gradient: bool, tmp_path: Path) -> None:
    """One step forward and two backward; operands and results that are stored by token stay so."""
    case = load(tmp_path, CASES[name].model(gradient))
    found = ops(fuse.fuse_program(case.program, Options()))
    assert sorted(found) == sorted(STEPS if gradient else STEPS[:1])
    for options in (APART, Options(allow_rewrites=False), Options(opt_out=tuple(n.name for n in case.program.nodes))):
        assert not set(STEPS) & set(ops(fuse.fuse_program(case.program, options)))


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("length", [11, 13, 16, 19, 63, 64, 65, 130])
def test_same_bits_of_lengths(length: int, tmp_path: Path) -> None:
    """For whole and partial blocks of every sum, causal and not, in one tile and in several, on some cores."""
    for number, (heads, causal) in enumerate([((1, 1), True), ((4, 2), False)]):
        folder = tmp_path / str(number)
        case = load(folder, Attention(length, heads, causal=causal).model())
        expected = bits_apart(case, folder / "apart")
        for strategy, l1, cores in (("single", 200000, 1), ("double", 90000, 3), ("single", 45000, 2)):
            built = compile_case(case, folder / f"{strategy}{l1}", strategy, l1, cores=cores)
            assert [step.op for step in built.plan.steps] == STEPS, l1
            assert result_hash(built.run("--dma-order", "late")) == expected, (causal, strategy, l1)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["host", "host_flat"])
def test_same_bits_of_forms(name: str, target: str, tmp_path: Path) -> None:
    """For every form, in small tiles of the simulator and in whole steps on this machine."""
    case = load(tmp_path, CASES[name].model())
    expected = bits_apart(case, tmp_path / "apart")
    options = Options(target, budgets={"L1": 9000} if target == "host" else None)
    tiling, plan = pipeline.plan_case(case, options)
    assert set(STEPS) <= {step.op for step in plan.steps}
    pipeline.write_case(case, tiling, plan, tmp_path / "code")
    pipeline.build_case(plan, tmp_path / "code")
    assert result_hash(Built(case, tiling, plan, tmp_path / "code").run()) == expected


def test_rows_that_do_not_fit_stay_apart(tmp_path: Path) -> None:
    """Keys, values and a row of scores that are larger than the budget leave the nodes as they are."""
    case = load(tmp_path, Attention(65).model())
    assert not set(STEPS) & set(ops(fuse.fuse_program(case.program, Options(budgets={"L1": 6000}))))


def test_costs_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fixture the nodes stay where steps without a measured cost take longer."""
    monkeypatch.undo()
    case = load(tmp_path, Attention(16, causal=False).model())
    assert not set(STEPS) & set(ops(fuse.fuse_program(case.program, Options())))


def test_scores_that_no_level_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that take longer stand where the matrices of scores are larger than the memory; they fit it."""
    monkeypatch.undo()
    case = load(tmp_path, Attention(130, causal=False).model())
    expected = bits_apart(case, tmp_path / "apart")
    built = compile_case(case, tmp_path / "code", "single", 50000, l2=250000)
    assert sorted(step.op for step in built.plan.steps) == sorted(STEPS)
    assert result_hash(built.run()) == expected
    options = replace(built.tiling.lifetimes.schedule.options, disabled_rewrites=("attention",))
    with pytest.raises(PlacementInfeasible):
        pipeline.plan_case(case, options)


OTHERS: dict[str, object] = {
    "scores that are read": node("Relu", ("p",), ("seen",)),
    "a result that is read": node("Relu", ("y",), ("seen",)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_readers(name: str, tmp_path: Path) -> None:
    """A softmax that another node reads stays; a result may have any readers."""
    model = Attention(11).model(more=[OTHERS[name]])
    model = replace(model, outputs=(*model.outputs, value("seen", None)))
    found = ops(fuse.fuse_program(load(tmp_path, model).program, Options()))
    assert set(STEPS) <= set(found) or name == "scores that are read"
    assert ("Softmax" in "".join(found)) == (name == "scores that are read")


EACH = pytest.mark.parametrize("each", [1, 4], ids=["rows", "blocks"])


def _rows(length: int, each: int = 1) -> tuple[list[np.ndarray], dict[str, float]]:
    """Q, K and V, and attributes, of rows one by one or of blocks."""
    r = np.random.default_rng(4)
    operands = [r.standard_normal((1, 1, length, 4)).astype(np.float32) for _ in "qkv"]
    return operands, {"alpha": 0.3, "rows_each": each}


def _run(op: str, inputs: Sequence[np.ndarray], outputs: int, attrs: dict[str, float]) -> list[np.ndarray]:
    step = step_of(registry()[op], Sample("rows", tuple(inputs), {"causal": 1, "workers": 2, **attrs}, outputs))
    return run_step(step, step.access.sizes)


@EACH
def test_keys_behind_are_not_read(each: int) -> None:
    """NaN in keys and values behind a causal query has no effect on the queries before."""
    inputs, attrs = _rows(40, each)
    expected = _run(STEPS[0], inputs, 3, attrs)
    for x in inputs[1:]:
        x[:, :, 30:] = np.nan
    found = _run(STEPS[0], inputs, 3, attrs)
    assert bits(found[0][:, :, :30]) == bits(expected[0][:, :, :30])
    assert np.isnan(found[0][:, :, 30:]).all()


@EACH
def test_queries_before_are_not_read(each: int) -> None:
    """NaN in queries before the first one that sees a key has no effect on the gradients of the key."""
    (q, k, v), attrs = _rows(40, each)
    dy, stats, dot = q[:, :, ::-1].copy(), np.ones((1, 1, 40, 2), np.float32), np.zeros((1, 1, 40, 1), np.float32)
    operands = [dy, q, k, v, np.zeros((40, 40), np.float32), stats, dot]
    expected = _run(STEPS[2], operands, 3, attrs)
    dy[:, :, :10] = q[:, :, :10] = np.nan
    found = _run(STEPS[2], operands, 3, attrs)
    for i in (0, 1):
        assert bits(found[i][:, :, 10:]) == bits(expected[i][:, :, 10:])
        assert np.isnan(found[i][:, :, :10]).all()


@EACH
def test_zeros_that_underflow_keep_their_sign(each: int) -> None:
    """A product that underflows to -0 becomes +0 by the zeros behind it, which a causal row leaves out."""
    inputs, attrs = _rows(4, each)
    q, k, v = inputs
    q[:], k[:], v[:] = 1.0, 1.0, -np.float32(1e-45)
    v[:, :, 2:] = 1.0
    (y, *_), p = _run(STEPS[0], [q, k, v], 3, attrs), np.tri(4, dtype=np.float32)
    p = p / p.sum(-1, keepdims=True)
    step = step_of(registry()["Gemm"], Sample("apart", (p, v[0, 0])))
    apart = run_step(step, step.access.sizes)[0]
    assert bits(y[0, 0]) == bits(apart)
    assert (apart[1] == 0).all()
    assert not np.signbit(apart[1]).any()


PADDED = (1, 5, 70)
"""Keys in front of a sequence that a mask hides."""


def _padded(x: np.ndarray, count: int) -> np.ndarray:
    """Tokens in front that are no numbers, but for gradients, which are zeros there."""
    return np.concatenate([np.full_like(x[:, :, :1], 3.0).repeat(count, 2), x], 2)


def _results(length: int, count: int, attrs: dict[str, int], hide: bool) -> dict[str, np.ndarray]:
    """The results of all three steps for a sequence behind so many tokens of padding, without these."""
    r = np.random.default_rng(8)
    shapes = {"q": (2, 4), "k": (1, 4), "v": (1, 5), "dy": (2, 5)}
    operands = {n: r.standard_normal((1, h, length, w)).astype(np.float32) for n, (h, w) in shapes.items()}
    q, k, v, dy = (_padded(x, count) for x in operands.values())
    dy[:, :, :count] = 0
    mask = (
        np.triu(np.full((length + count,) * 2, -np.inf, np.float32), 1)
        if hide
        else np.zeros((length + count,) * 2, np.float32)
    )
    mask[:, :count] = -np.inf
    given = {"alpha": 0.3, "safe": 1, "workers": 3, **attrs}

    def run(op: str, inputs: Sequence[np.ndarray], outputs: int) -> list[np.ndarray]:
        step = step_of(registry()[op], Sample("padded", tuple(inputs), dict(given), outputs))
        return run_step(step, step.access.sizes)

    y, stats, _ = run(STEPS[0], (q, k, v, mask), 3)
    dq, dot, _ = run(STEPS[1], (dy, q, k, v, mask), 3)
    dk, dv, _ = run(STEPS[2], (dy, q, k, v, mask, stats, dot), 3)
    return {n: x[:, :, count:] for n, x in zip(RESULTS, (y, dq, dk, dv), strict=True)}


@pytest.mark.parametrize(
    "attrs", [{}, {"rows_each": 4}, {"causal": 1, "rows_each": 4}], ids=["rows", "blocks", "causal"]
)
@pytest.mark.parametrize("length", [20, 66, 150, 301])
def test_left_padding_keeps_bits(length: int, attrs: dict[str, int]) -> None:
    """Sums count blocks from the first key, or query, that is not padding; without the flag padding moves them."""
    hide = "causal" not in attrs
    plain = _results(length, 0, {**attrs, "from_first": 1}, hide)
    assert {n: bits(x) for n, x in plain.items()} == {n: bits(x) for n, x in _results(length, 0, attrs, hide).items()}
    for count in PADDED:
        found = _results(length, count, {**attrs, "from_first": 1}, hide)
        assert {n: bits(x) for n, x in found.items()} == {n: bits(x) for n, x in plain.items()}, count
    moved = _results(length, 5, attrs, hide)
    assert (bits(moved["y"]) == bits(plain["y"])) == (length == 20), "a sum of up to 32 powers is one block"


@EACH
@pytest.mark.parametrize("from_first", [0, 1])
def test_masked_keys_are_not_read(from_first: int, each: int) -> None:
    """NaN in keys and values that a mask hides at the end of a row, or at both ends, has no effect."""
    (q, k, v), attrs = _rows(40, each)
    mask, attrs = np.zeros((40, 40), np.float32), attrs | {"safe": 1, "causal": 0, "from_first": from_first}
    hidden = [slice(33, None), slice(9 * from_first)]
    for part in hidden:
        mask[:, part] = -np.inf
    expected = _run(STEPS[0], [q, k, v, mask], 3, attrs)
    for part in hidden:
        k[:, :, part] = v[:, :, part] = np.nan
    assert bits(_run(STEPS[0], [q, k, v, mask], 3, attrs)[0]) == bits(expected[0])


BLOCKS = {
    "room": (Attention(40), 200000, [4, 4, 4]),
    "no room backward": (Attention(130, (1, 1)), 30000, [4, None, None]),
    "narrow": (Attention(40, width=(3, 5)), 200000, [None] * 3),
    "few": (Attention(7, (1, 1), batch=1), 200000, [None] * 3),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str, tmp_path: Path) -> None:
    """Steps compute blocks where they are as wide, each core has one, and their rows have room."""
    sizes, l1, expected = BLOCKS[name]
    found = fuse.fuse_program(load(tmp_path, sizes.model()).program, Options(budgets={"L1": l1}, cores=8)).nodes
    rows = {n.op: n.attrs.get("rows_each") for n in found}
    assert [rows[op] for op in STEPS] == expected


@pytest.mark.parametrize("mask", [True, False])
def test_canonical_order_needs_the_steps(mask: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In canonical order masked attention becomes steps whatever they cost, and other attention as it does else."""
    monkeypatch.setattr(attention, "is_quicker", lambda found, types, target: False)
    case = load(tmp_path, Attention(40, mask=mask).model(gradient=False))
    found = fuse.fuse_program(case.program, Options(canonical_batch=True)).nodes
    assert [n.attrs.get("from_first") for n in found if n.op in STEPS] == ([1] if mask else [])
