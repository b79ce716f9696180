"""Kernel calls by hand, for what no sample of an operator has: gaps between rows, remainders, loops of their own."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.core.ir import AttrValue
from deployer.core.operator import Array, registry
from deployer.core.samples import Sample
from deployer.operators.base.sums import PRODUCTS
from deployer.operators.products.gemm import SINGLE
from deployer.testing.bench import kernel_model, step_of

MODEL = kernel_model()

SHAPES = (
    (4, 4, 1),
    (8, 12, 5),
    (5, 7, 9),
    (6, 33, 4),
    (1, 35, 13),
    (35, 1, 13),
    (3, 2, 7),
    (13, 19, 1),
    (1, 64, 1),
    (1, 1, 1),
    (9, 10, 307),
    (8, 12, 300),
    (1, 37, 145),
    (1, 11, 307),
    (21, 1, 290),
)


def normal(seed: int, size: int) -> Array:
    """So many normal numbers."""
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def hard(seed: int, size: int) -> Array:
    """The same, a third of which are zeros of both signs, subnormal or large."""
    special = np.array([0.0, -0.0, 1e-40, -1e-40, 1e-30, -1e-30, 2e38, -2e38], np.float32)
    return np.where(np.arange(size) % 3 == seed, np.resize(special, size), normal(seed, size))


def gemm_job(m: int, n: int, k: int, form: str, batch: int = 1, **changed: float) -> KernelJob:
    """A product of operands with gaps: `form` is two of "n" and "t", for op(A) and op(B)."""
    a_rows, a_cols = (k, m) if form[0] == "t" else (m, k)
    b_rows, b_cols = (n, k) if form[1] == "t" else (k, n)
    gap = 3
    pitch = {"a": a_cols + gap, "b": b_cols + gap, "y": n + gap, "c": n + gap}
    rows = {"a": a_rows, "b": b_rows, "y": m, "c": m}
    scalars: dict[str, int | float] = {"batch": batch, "m": m, "n": n, "k": k, "y_m": pitch["y"]}
    scalars |= dict(zip(("a_m", "a_k") if form[0] == "n" else ("a_k", "a_m"), (pitch["a"], 1), strict=True))
    scalars |= dict(zip(("b_k", "b_n") if form[1] == "n" else ("b_n", "b_k"), (pitch["b"], 1), strict=True))
    scalars |= {"gate_b": 0, "gate_m": 0, "relu": 0}
    scalars |= {"c_m": pitch["c"], "c_n": 1, "first": 1, "last": 1, "single": int(k <= PRODUCTS)}
    scalars |= {"alpha": 1.0, "beta": 1.0, **changed}
    scalars |= {f"{x}_b": rows[x] * pitch[x] for x in "abcy"}
    present = "abcy" if changed.get("beta") else "aby"
    operands = {x: normal(index, batch * rows[x] * pitch[x]) for index, x in enumerate(present)}
    suffix = "".join(f"-{name}{value}" for name, value in changed.items())
    kernel = registry()["Gemm"].kernel
    assert kernel is not None
    return KernelJob(f"gemm-{form}-{batch}x{m}x{n}x{k}{suffix}", kernel, operands, scalars)


def gemm_jobs() -> Iterator[KernelJob]:
    """Whole blocks and every remainder of rows, columns and k; vectors, outer products; partial sums and epilogues."""
    for form in ("nn", "nt", "tn", "tt"):
        for m, n, k in SHAPES:
            yield gemm_job(m, n, k, form)
            yield gemm_job(m, n, k, form, 2, beta=0.5, alpha=-1.25)
            yield gemm_job(m, n, k, form, beta=0.5)
            yield gemm_job(m, n, k, form, first=0, last=0)
            yield gemm_job(m, n, k, form, first=0, last=0, single=0)
        yield gemm_job(9, 10, 6, form, 3, first=0, beta=2.0)
        yield gemm_job(13, 19, 1, form, 3)
        yield gemm_job(13, 19, 1, form, 3, beta=1.0)
        yield gemm_job(5, 64, 1, form, beta=1.0)
    wide = gemm_job(7, 9, 5, "nn")
    strides = {"a_m": 17, "a_k": 3, "b_k": 2, "b_n": 19, "c_n": 0}
    operands = {**wide.operands, "a": normal(5, 200), "b": normal(6, 200)}
    yield KernelJob("gemm-strided", wide.kernel, operands, {**wide.scalars, **strides})
    outer: dict[str, int | float] = {"k": 1, "a_m": 17, "b_n": 19}
    for form in ("", "few_rows", "outer"):
        scalars = {**wide.scalars, **outer, "single": SINGLE.get(form, 1)}
        yield KernelJob(f"gemm-strided-outer-{form}", wide.kernel, operands, scalars)


def gemm_form_jobs() -> Iterator[KernelJob]:
    """Few products and outer products in their forms: fewer outputs than cores, as many, more; parts of sums."""
    for form in ("nn", "nt", "tn", "tt"):
        for n, k in ((1, 1), (3, 2), (8, 64), (10, 8), (16, 31), (4, 128)):
            few = SINGLE["few"]
            yield gemm_job(1, n, k, form, single=few)
            yield gemm_job(1, n, k, form, single=few, beta=0.5, alpha=-1.25)
            yield gemm_job(1, n, k, form, single=few, beta=0.5, relu=1)
            yield gemm_job(1, n, k, form, single=few, first=0, last=0)
            yield gemm_job(1, n, k, form, single=few, first=0, beta=2.0)
        for m, n in ((1, 1), (2, 70), (9, 8), (7, 3), (17, 30), (40, 2)):
            for batch in (1, 3):
                yield gemm_job(m, n, 1, form, batch, single=SINGLE["outer"])
                yield gemm_job(m, n, 1, form, batch, single=SINGLE["added"], beta=0.5)
            yield gemm_job(m, n, 1, form, single=SINGLE["few_rows"])
        for m, n in ((64, 64), (5, 137), (3, 264), (19, 129)):
            yield gemm_job(m, n, 1, form, single=SINGLE["outer"])
            yield gemm_job(m, n, 1, form, single=SINGLE["added"], beta=1.0)


def whole_job(
    op: str, label: str, inputs: tuple[Array | None, ...], attrs: dict[str, AttrValue], outputs: int = 1
) -> KernelJob:
    """An operator on these inputs in one tile."""
    step = step_of(registry()[op], Sample(label, inputs, attrs, outputs))
    tile = {d.name: (0, d.size) for d in step.access.dims}
    return measure.kernel_job(f"{op}-{label}", step.node, step.types, step.values, tile, MODEL)


def loop_jobs() -> Iterator[KernelJob]:
    """Images of twice the size and back, of even and odd width; quotients by rows; rows of a table by eight columns."""
    for height, width in product((1, 5, 16), (1, 6, 7)):
        windows = hard(0, 4 * height * width).reshape(height, 2, width, 2)
        windows[0, :, 0] = -0.0
        for op in ("ReduceSum", "ReduceMean"):
            yield whole_job(op, f"windows{height}x{width}", (windows,), {"axes": (1, 3), "keepdims": 0})
        image = hard(0, height * width).reshape(height, 1, width, 1)
        yield whole_job("Expand", f"doubled{height}x{width}", (image,), {"shape": (height, 2, width, 2)})
    for rows, columns in ((5, 1), (3, 7), (16, 33)):
        dividends, divisors = hard(0, rows * columns).reshape(rows, columns), hard(1, rows).reshape(rows, 1)
        yield whole_job("Div", f"rows{rows}x{columns}", (dividends, divisors), {})
    ids = (np.arange(9) ** 2 % 7 - 3).astype(np.int32)
    for columns in (3, 8, 64, 67):
        dy = normal(0, 9 * columns).reshape(9, columns)
        yield whole_job("GatherGrad", f"columns{columns}", (None, ids, dy), {"axis": 0, "shape": (11, columns)})


def weight_jobs(cores: int) -> Iterator[KernelJob]:
    """Gradients of weights: of taps beside each other and of dilated ones; of one block of four outputs by one channel
    for each core, and of three.
    """
    for step in (1, 2):
        x = normal(1, 4 * (8 + 2 * step) * (16 + 2 * step)).reshape(1, 4, 8 + 2 * step, 16 + 2 * step)
        taps: dict[str, AttrValue] = {"kernel_shape": (3, 3), "dilations": (step, step)}
        yield whole_job("ConvGradW", f"dilated{step}", (normal(0, 1024).reshape(1, 8, 8, 16), x), taps)
    for blocks in (cores, 3 * cores):
        dy, x = normal(0, 256 * blocks).reshape(1, 2 * blocks, 8, 16), normal(1, 256).reshape(1, 2, 8, 16)
        yield whole_job("ConvGradW", f"{blocks}blocks", (dy, x), {"kernel_shape": (1, 1)})
