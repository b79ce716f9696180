"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, rng
from deployer.core.samples import (
    Sample,
    inherited_samples,
    inherited_sweep,
    measured,
    measured_layers,
    samples_of,
    sweep_of,
)
from deployer.core.traits.fusion import ACTIVATION
from deployer.operators.base.epilogue import RELU
from deployer.operators.base.operands import normal
from deployer.operators.products.convolution import Conv, ConvGrad, ConvGradB, ConvTranspose
from deployer.operators.products.convolution_geometry import FORMS, VOLUMES, geometry
from deployer.operators.products.convolution_grad import ConvGradW, ConvGradX, ConvSGD
from deployer.operators.products.gemm import Gemm, Shape
from deployer.operators.products.joint_gemm import JointGemm
from deployer.operators.products.matmul import Einsum, FusedMatMul, MatMul


@samples_of(Conv)
def conv_samples(op: Conv) -> Iterator[Sample]:
    """Every attribute, one to three spatial axes, groups and depthwise, with and without bias."""
    r = rng(41)
    for label, x, w, attrs in FORMS:
        yield Sample(label, (normal(r, *x), normal(r, *w)), attrs)
    for label, x, w, attrs in FORMS[::4]:
        yield Sample(f"{label}_bias", (normal(r, *x), normal(r, *w), normal(r, w[0])), attrs)
    for label, x, w, attrs in FORMS[::6]:
        inputs = (normal(r, *x), normal(r, *w), normal(r, w[0]))
        yield Sample(f"{label}_relu", inputs, {**attrs, ACTIVATION: RELU}, onnx=False)
    _, x, w, attrs = FORMS[0]
    yield Sample("relu", (normal(r, *x), normal(r, *w)), {**attrs, ACTIVATION: RELU}, onnx=False)
    for label, x, w, attrs in VOLUMES:
        yield Sample(label, (normal(r, *x), normal(r, *w), normal(r, w[0])), attrs)


@sweep_of(Conv)
def conv_sweep(op: Conv) -> Iterator[Sample]:
    """Regular, pointwise, depthwise and strided layers, and the same with Relu.

    Strips of columns, single taps and first layers differ by the bias enough to be measured with it and without.
    """
    r = rng(42)
    for layer in measured_layers():
        x, w, attrs, label = layer.x, layer.w, layer.attrs, layer.label
        inputs = (normal(r, *x), normal(r, *w), normal(r, w[0]))
        yield Sample(label, inputs, attrs)
        if w[1] == 1 or w[2:] == (1, 1):
            yield Sample(f"{label} without bias", inputs[:2], attrs)
        yield Sample(f"{label} relu", inputs, {**attrs, ACTIVATION: RELU}, onnx=False)


@samples_of(ConvTranspose)
def conv_transpose_samples(op: ConvTranspose) -> Iterator[Sample]:
    """Strides, pads, dilations, groups, padding of the output, signals, with and without bias."""
    r = rng(124)
    cases: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, AttrValue], bool]] = {
        "plain": ((1, 3, 4, 5), (3, 2, 3, 3), {}, False),
        "bias": ((2, 2, 3, 4), (2, 3, 2, 3), {"pads": (1, 0, 0, 1)}, True),
        "strided": ((1, 2, 4, 3), (2, 3, 2, 2), {"strides": (2, 2)}, True),
        "padded": (
            (1, 2, 4, 3),
            (2, 3, 3, 3),
            {"strides": (2, 2), "pads": (1,) * 4, "output_padding": (1, 1)},
            True,
        ),
        "dilated": ((1, 2, 4, 3), (2, 1, 3, 2), {"dilations": (2, 3)}, False),
        "groups": ((1, 4, 3, 3), (4, 2, 3, 3), {"group": 2, "kernel_shape": (3, 3)}, True),
        "depthwise": ((1, 3, 3, 4), (3, 1, 3, 3), {"group": 3, "strides": (2, 1)}, False),
        "same": ((1, 2, 3, 3), (2, 1, 3, 4), {"strides": (2, 1), "auto_pad": "SAME_UPPER"}, True),
        "lower": ((1, 2, 3, 3), (2, 1, 3, 4), {"strides": (2, 3), "auto_pad": "SAME_LOWER"}, False),
        "shaped": ((1, 1, 3, 3), (1, 2, 3, 3), {"strides": (3, 2), "output_shape": (10, 6)}, False),
        "signal": ((1, 3, 7), (3, 2, 4), {"strides": (2,), "pads": (1, 1)}, True),
        "volume": ((1, 2, 3, 3, 2), (2, 3, 2, 3, 3), {"strides": (2, 1, 2), "pads": (1, 0, 1, 0, 1, 1)}, True),
    }
    for label, (x, w, attrs, biased) in cases.items():
        channels = w[1] * int(str(attrs.get("group", 1)))
        bias = (normal(r, channels),) if biased else ()
        yield Sample(label, (normal(r, *x), normal(r, *w), *bias), attrs)


@samples_of(ConvGrad)
def conv_grad_samples(op: ConvGrad) -> Iterator[Sample]:
    """The forms of Conv, with and without bias."""
    r = rng(48)
    for i, (label, x, w, attrs) in enumerate((*FORMS, *VOLUMES)):
        y = geometry(Node(label, "Conv", (), (), attrs), x, w, ()).y_shape
        yield Sample(label, (normal(r, *y), normal(r, *x), normal(r, *w)), attrs, 2 + i % 2, onnx=False)


@samples_of(ConvGradB)
def conv_grad_b_samples(op: ConvGradB) -> Iterator[Sample]:
    """Planes, a batch, and lines."""
    r = rng(47)
    yield Sample("plane", (normal(r, 1, 3, 4, 5),), onnx=False)
    yield Sample("batch", (normal(r, 2, 3, 4, 5),), onnx=False)
    yield Sample("line", (normal(r, 2, 3, 7),), onnx=False)


@samples_of(ConvGradX)
def conv_grad_x_samples(op: ConvGradX) -> Iterator[Sample]:
    """The forms of Conv, with and without the shape of X."""
    r = rng(43)
    for label, x, w, attrs in FORMS:
        yield _grad_x_sample(r, label, x, w, attrs)
    for label, x, w, attrs in FORMS[::4]:
        yield _gated(r, _grad_x_sample(r, f"{label}_gate", x, w, attrs), x)
    for label, x, w, attrs in VOLUMES:
        yield _grad_x_sample(r, label, x, w, attrs)
    yield Sample("smallest", (normal(r, 1, 3, 3, 2), normal(r, 3, 2, 3, 3)), {"strides": (2, 3)}, onnx=False)


FIRST_CHANNELS = 4
"""Channels of X up to which a layer is a network's first, whose gradient of X nobody needs."""


@sweep_of(ConvGradX)
def conv_grad_x_sweep(op: ConvGradX) -> Iterator[Sample]:
    """The layers on which Conv is measured, with and without a gate.

    First ones are left out, and parts of a layer that lack a neighbour's dY.
    """
    r = rng(44)
    for layer in measured_layers():
        x, w, attrs, label = layer.x, layer.w, layer.attrs, layer.label
        plain = _grad_x_sample(r, label, x, w, attrs)
        if x[1] > FIRST_CHANNELS and min(Node(label, "Conv", (), (), attrs).attr_ints("pads", (1,))) > 0:
            yield plain
            yield _gated(r, replace(plain, label=f"{label} gated"), x)


def _gated(r: np.random.Generator, plain: Sample, x: tuple[int, ...]) -> Sample:
    return replace(plain, inputs=(*plain.inputs, np.maximum(normal(r, *x), np.float32(0))))


def _grad_x_sample(
    r: np.random.Generator, label: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, AttrValue]
) -> Sample:
    shape = geometry(Node(label, "Conv", (), (), attrs), x, w, ())
    inputs = (normal(r, *shape.y_shape), normal(r, *w))
    return Sample(label, inputs, {**attrs, "input_shape": shape.input_shape}, onnx=False)


@samples_of(ConvGradW)
def conv_grad_w_samples(op: ConvGradW) -> Iterator[Sample]:
    """The forms of Conv."""
    r = rng(45)
    for label, x, w, attrs in (*FORMS, *VOLUMES):
        yield _grad_w_sample(r, label, x, w, attrs)


@sweep_of(ConvGradW)
def conv_grad_w_sweep(op: ConvGradW) -> Iterator[Sample]:
    """The layers on which Conv is measured."""
    r = rng(46)
    for layer in measured_layers():
        yield _grad_w_sample(r, layer.label, layer.x, layer.w, layer.attrs)


def _grad_w_sample(
    r: np.random.Generator, label: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, AttrValue]
) -> Sample:
    shape = geometry(Node(label, "Conv", (), (), attrs), x, w, ())
    inputs = (normal(r, *shape.y_shape), normal(r, *x))
    return Sample(label, inputs, {**attrs, "kernel_shape": w[2:]}, onnx=False)


@samples_of(ConvSGD)
def conv_sgd_samples(op: ConvSGD) -> Iterator[Sample]:
    """The forms of the gradient that are no volumes, with a weight."""
    yield from _with_weights(op, inherited_samples(op, ConvSGD), 49)


@sweep_of(ConvSGD)
def conv_sgd_sweep(op: ConvSGD) -> Iterator[Sample]:
    """The layers on which Conv is measured."""
    yield from _with_weights(op, inherited_sweep(op, ConvSGD), 50)


def _with_weights(operator: ConvSGD, gradients: Iterator[Sample], seed: int) -> Iterator[Sample]:
    """The samples of gradients with a weight of their shape and a rate."""
    r = rng(seed)
    for sample in gradients:
        dy, x = (array for array in sample.inputs if array is not None)
        if x.ndim > 4:
            continue
        node = Node(sample.label, operator.name, ("dy", "x"), ("w",), sample.attrs)
        (w,) = ConvGradW().infer(node, [TensorType("float32", array.shape) for array in (dy, x)])
        yield replace(sample, inputs=(dy, x, normal(r, *w.shape)), attrs={**sample.attrs, "lr": 0.125})


@samples_of(Gemm)
def gemm_samples(op: Gemm) -> Iterator[Sample]:
    """All transpose forms, each form of C, alpha and beta, outer product, rank 3 and batched."""
    r = rng(1)

    def x(*shape: int) -> Array:
        return r.standard_normal(shape).astype(np.float32)

    for ta in (0, 1):
        for tb in (0, 1):
            a, b = x(*((7, 5) if ta else (5, 7))), x(*((9, 7) if tb else (7, 9)))
            yield Sample(f"t{ta}{tb}", (a, b, x(9)), {"transA": ta, "transB": tb})
    yield Sample("no_c", (x(4, 6), x(6, 3)), {"alpha": 0.5})
    yield Sample("beta", (x(4, 6), x(6, 3), x(4, 3)), {"alpha": -1.5, "beta": 0.25})
    yield Sample("beta0", (x(4, 6), x(6, 3), x(4, 3) + np.float32(np.nan)), {"beta": 0.0})
    yield Sample("c_column", (x(4, 6), x(6, 3), x(4, 1)))
    yield Sample("c_scalar", (x(4, 6), x(6, 3), x()))
    yield Sample("outer", (x(1, 6), x(1, 8)), {"transA": 1})
    yield Sample("rank3", (x(1, 6, 8), x(5, 8), x(5)), {"transB": 1}, onnx=False)
    yield Sample("rank3_b2", (x(2, 6, 8), x(8, 5)), onnx=False)
    yield Sample("batched", (x(1, 2, 6, 8), x(1, 2, 6, 5)), {"transA": 1}, onnx=False)
    relu: dict[str, AttrValue] = {ACTIVATION: RELU}
    yield Sample("relu", (x(5, 7), x(7, 9), x(9)), relu, onnx=False)
    yield Sample("relu_no_c", (x(1, 7), x(9, 7)), {"transB": 1, "alpha": 0.5, **relu}, onnx=False)
    yield Sample("relu_outer", (x(6, 1), x(1, 9)), relu, onnx=False)
    yield Sample("relu_batched", (x(2, 6, 8), x(2, 8, 5)), relu, onnx=False)
    for label, left, right in (
        ("", (5, 7), (7, 9)),
        ("_vector", (1, 7), (7, 9)),
        ("_batched", (2, 4, 8), (2, 8, 5)),
    ):
        y = np.maximum(x(*left[:-1], right[-1]), np.float32(0))
        yield Sample(f"gate{label}", (x(*left), x(*right), None, y), {"beta": 0.0}, onnx=False)
    y = np.maximum(x(4, 3), np.float32(0))
    yield Sample("gate_c", (x(4, 6), x(6, 3), x(3), y), {"alpha": 0.5}, onnx=False)
    heads, across = (0, 2, 1, 3), (0, 2, 3, 1)
    cases: tuple[tuple[str, Shape, Shape, dict[str, AttrValue]], ...] = (
        ("heads", (1, 5, 2, 7), (1, 9, 2, 7), {"order_a": heads, "order_b": across}),
        ("heads_rows", (1, 2, 7, 5), (1, 9, 2, 7), {"transA": 1, "order_b": heads, "transB": 1, "order_y": heads}),
        ("heads_turned", (1, 2, 5, 7), (1, 7, 2, 9), {"order_b": heads, "order_y": (0, 3, 1, 2)}),
        ("rows_turned", (5, 7), (7, 9), {"order_y": (1, 0), "alpha": 0.5}),
        ("rows_ordered", (2, 3, 7, 5), (7, 9), {"order_a": (0, 1, 3, 2), "order_y": (2, 0, 1, 3)}),
        ("columns_ordered", (7, 5), (2, 9, 7), {"order_a": (1, 0), "order_b": (0, 2, 1)}),
    )
    for label, first, second, orders in cases:
        yield Sample(f"ordered_{label}", (x(*first), x(*second)), orders, onnx=False)
    for label, rows in (("long", 6), ("long_vector", 1)):
        yield Sample(label, (x(rows, 307), x(307, 5), x(5)), {"alpha": 0.5})


@sweep_of(Gemm)
def gemm_sweep(op: Gemm) -> Iterator[Sample]:
    """Vectors times matrices, outer products, small batches and squares, in every transpose form; sums finished."""
    r = rng(2)
    for m, n, k in measured("products"):
        for ta in (0, 1):
            for tb in (0, 1):
                a = r.standard_normal((k, m) if ta else (m, k)).astype(np.float32)
                b = r.standard_normal((n, k) if tb else (k, n)).astype(np.float32)
                yield Sample(f"{m}x{n}x{k} t{ta}{tb}", (a, b), {"transA": ta, "transB": tb})
        if k == 1 or m > 1:
            c_shape = (m, n) if k == 1 else (n,)
            a, b, c = (r.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), c_shape))
            yield Sample(f"{m}x{n}x{k} c", (a, b, c))
    for count, m, n, k in measured("batches"):
        a, b = (r.standard_normal(shape).astype(np.float32) for shape in ((count, m, k), (count, k, n)))
        yield Sample(f"{count} of {m}x{n}x{k}", (a, b))
        yield Sample(f"{count} of {m}x{n}x{k} scaled", (a, b), {"alpha": 0.5})


def _joint(op: JointGemm, r: np.random.Generator, label: str, common: Shape, apart: Shape, **swaps: int) -> Sample:
    """Products that have two lengths in common, the other one apart, and operands swapped from what is usual."""
    first, second = common
    inputs: list[Array | None] = []
    ta, tb = swaps.get("transA", int(op.shared == "b")), swaps.get("transB", int(op.shared == "a"))
    for i, own in enumerate(apart):
        m, n, k = {"a": (first, own, second), "b": (own, first, second), "y": (first, second, own)}[op.shared]
        a, b = normal(r, *((k, m) if ta else (m, k))), normal(r, *((n, k) if tb else (k, n)))
        pair = {"a": [a, b][i > 0 :], "b": [b, a][i > 0 :], "y": [a, b]}[op.shared]
        inputs += pair
    outputs = 1 if op.shared == "y" else len(apart)
    return Sample(label, tuple(inputs), {"transA": ta, "transB": tb}, outputs, onnx=False)


@samples_of(JointGemm)
def joint_gemm_samples(op: JointGemm) -> Iterator[Sample]:
    """Two and three products, of equal and unequal sizes, in every transposed form, with long sums and more to add."""
    r = rng(132)
    for ta in (0, 1):
        for tb in (0, 1):
            yield _joint(op, r, f"t{ta}{tb}", (5, 7), (6, 4, 2), transA=ta, transB=tb)
    yield _joint(op, r, "two", (6, 8), (4, 4))
    yield _joint(op, r, "prime", (3, 5), (2, 3))
    yield _joint(op, r, "long", (4, 307), (2, 4, 2))
    yield _joint(op, r, "long_apart", (2, 3), (300, 150))
    if op.shared == "y":
        for c in ((5, 7), (7,), (5, 1)):
            plain = _joint(op, r, f"c{c}", (5, 7), (6, 4, 2))
            yield replace(plain, inputs=(*plain.inputs, normal(r, *c)))
        return
    for label, sizes in (("all", (6, 4, 2)), ("two", (4, 6)), ("long", (2, 3, 5))):
        plain = _joint(op, r, f"added to {label}", (5, 7 if label != "long" else 307), sizes)
        added = [normal(r, *((n,) if op.shared == "a" else (5,))) for n in sizes]
        yield replace(plain, inputs=(*plain.inputs, *added))
    plain = _joint(op, r, "added to some", (5, 7), (6, 4, 2))
    some = normal(r, *((5, 6) if op.shared == "a" else (6, 5)))
    yield replace(plain, inputs=(*plain.inputs, some, None, None))


@sweep_of(JointGemm)
def joint_gemm_sweep(op: JointGemm) -> Iterator[Sample]:
    """The layers of small transformers, forward and backward, and parts that tiles make of them."""
    r = rng(133)
    for first, second, *apart in measured("joint_products"):
        sizes = tuple(size for size in apart if size)
        yield _joint(op, r, f"{first}x{second}x{sizes}", (first, second), sizes)


@samples_of(MatMul)
def mat_mul_samples(op: MatMul) -> Iterator[Sample]:
    """Matrices, batches on both sides or one, vectors."""
    r = rng(45)
    yield Sample("matrix", (normal(r, 5, 7), normal(r, 7, 3)))
    yield Sample("batch", (normal(r, 2, 3, 5, 7), normal(r, 2, 3, 7, 3)))
    yield Sample("batch_left", (normal(r, 2, 5, 7), normal(r, 7, 3)))
    yield Sample("batch_right", (normal(r, 5, 7), normal(r, 2, 7, 3)))
    yield Sample("vector_left", (normal(r, 7), normal(r, 7, 3)))
    yield Sample("vector_right", (normal(r, 2, 5, 7), normal(r, 7)))
    yield Sample("dot", (normal(r, 7), normal(r, 7)))


@samples_of(FusedMatMul)
def fused_mat_mul_samples(op: FusedMatMul) -> Iterator[Sample]:
    """Matrices and batches, each operand transposed in each way, a factor, and vectors."""
    r = rng(131)
    yield Sample("plain", (normal(r, 5, 7), normal(r, 7, 3)))
    yield Sample("alpha", (normal(r, 5, 7), normal(r, 7, 3)), {"alpha": 0.25})
    yield Sample("trans_a", (normal(r, 2, 7, 5), normal(r, 2, 7, 3)), {"transA": 1})
    yield Sample("trans_b", (normal(r, 2, 3, 5, 7), normal(r, 2, 3, 4, 7)), {"transB": 1, "alpha": 0.5})
    yield Sample("both", (normal(r, 7, 5), normal(r, 2, 3, 7)), {"transA": 1, "transB": 1})
    yield Sample("batch_a", (normal(r, 5, 2, 7), normal(r, 2, 7, 3)), {"transBatchA": 1})
    yield Sample("batch_b", (normal(r, 2, 4, 5, 7), normal(r, 7, 2, 4, 3)), {"transBatchB": 1})
    transposed: dict[str, AttrValue] = {"transA": 1, "transB": 1, "transBatchA": 1, "transBatchB": 1, "alpha": 2.0}
    yield Sample("all", (normal(r, 7, 2, 5), normal(r, 3, 2, 7)), transposed)
    yield Sample("vector", (normal(r, 7), normal(r, 2, 3, 7)), {"transA": 1, "transB": 1, "alpha": 3.0})


@samples_of(Einsum)
def einsum_samples(op: Einsum) -> Iterator[Sample]:
    """Products of matrices and in batches, outer and inner ones, three operands, sums and permutations."""
    r = rng(125)
    sizes = {"i": 3, "j": 4, "k": 5, "b": 2, "h": 2, "q": 3, "d": 4}
    for label, equation in (
        ("matmul", "ij,jk->ik"),
        ("transposed", "ij,kj->ki"),
        ("attention", "bhqd,bhkd->bhqk"),
        ("heads", "bqhd,bkhd->bhqk"),
        ("outer", "i,j->ij"),
        ("dot", "i,i->"),
        ("batch_outer", "bi,bj->bij"),
        ("elementwise", "ij,ij->ij"),
        ("three", "ij,jk,kd->id"),
        ("implicit", "ij, jk"),
        ("sum", "ijk->j"),
        ("permuted", "ijk->kij"),
        ("summed", "ijk,jd->id"),
    ):
        terms = equation.partition("->")[0].replace(" ", "").split(",")
        inputs = tuple(normal(r, *(sizes[letter] for letter in term)) for term in terms)
        yield Sample(label, inputs, {"equation": equation})
