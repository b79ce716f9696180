"""Layers of encoders over tokens, appended to a forward model one by one."""

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .generator import Value, layer, uniform


class Encoder:
    """Layers over values of [batch, tokens, width], with weights from a generator in the order of the calls."""

    def __init__(self, graph: gs.Graph, generator: np.random.Generator, shape: tuple[int, int, int]) -> None:
        """`shape` is the batch, the number of tokens and their width."""
        self.graph, self.generator, self.shape = graph, generator, shape

    def node(self, op: str, label: str, *inputs: gs.Tensor, **attrs: Any) -> Value:
        """A node named `label`; its output."""
        return layer(self.graph, op, label, inputs, **attrs)

    def norm(self, label: str, x: Value) -> Value:
        """Layer normalization, with scales about 1 and biases about 0 that differ."""
        width = self.shape[2]
        weight = gs.Constant(f"{label}.weight", (1 + 0.1 * self.generator.standard_normal(width)).astype(np.float32))
        bias = gs.Constant(f"{label}.bias", (0.1 * self.generator.standard_normal(width)).astype(np.float32))
        return self.node("LayerNormalization", label, x, weight, bias, axis=-1, epsilon=1e-5)

    def linear(self, label: str, x: Value, fan_in: int, fan_out: int, bias: bool = True) -> Value:
        """A product with a matrix of weights, and a bias."""
        weight = gs.Constant(f"{label}.weight", uniform(self.generator, fan_in, fan_in, fan_out))
        if not bias:
            return self.node("MatMul", label, x, weight)
        added = gs.Constant(f"{label}.bias", uniform(self.generator, fan_in, fan_out))
        return self.node("Add", label, self.node("MatMul", f"{label}.product", x, weight), added)

    def attention(self, label: str, x: Value, heads: int = 1, bias: bool = True) -> Value:
        """Scaled dot-product attention of the tokens to each other, and its projection.

        `bias` says whether query, key and value have one; labels of nodes begin with `label`.
        """
        width = self.shape[2]
        query, key, value = (self.linear(f"{label}{name}", x, width, width, bias) for name in ("query", "key", "value"))
        turn = [0, 2, 1]
        if heads > 1:
            query, value = self._heads(f"{label}query", query, heads), self._heads(f"{label}value", value, heads)
            key, turn = self._apart(f"{label}key", key, heads), [0, 2, 3, 1]
        scores = self.node("MatMul", f"{label}scores", query, self.node("Transpose", f"{label}turned", key, perm=turn))
        scale = gs.Constant(f"{label}scale", np.array((width // heads) ** -0.5, np.float32))
        weights = self.node("Softmax", f"{label}attention", self.node("Mul", f"{label}scaled", scores, scale), axis=-1)
        mixed = self.node("MatMul", f"{label}mixed", weights, value)
        if heads > 1:
            together = self.node("Transpose", f"{label}mixed.turned", mixed, perm=[0, 2, 1, 3])
            mixed = self._shaped(f"{label}mixed.joined", together, self.shape)
        return self.linear(f"{label}project", mixed, width, width)

    def feed(self, label: str, x: Value, hidden: int) -> Value:
        """Two layers with a Gelu between."""
        width = self.shape[2]
        gelu = self.node(
            "Gelu", f"{label}gelu", self.linear(f"{label}expand", x, width, hidden), domain="com.microsoft"
        )
        return self.linear(f"{label}contract", gelu, hidden, width)

    def _heads(self, label: str, x: Value, heads: int) -> Value:
        """[batch, heads, tokens, width of a head]."""
        return self.node("Transpose", f"{label}.turned", self._apart(label, x, heads), perm=[0, 2, 1, 3])

    def _apart(self, label: str, x: Value, heads: int) -> Value:
        """[batch, tokens, heads, width of a head]."""
        batch, tokens, width = self.shape
        return self._shaped(f"{label}.apart", x, (batch, tokens, heads, width // heads))

    def _shaped(self, label: str, x: Value, shape: tuple[int, ...]) -> Value:
        return self.node("Reshape", label, x, gs.Constant(f"{label}.shape", np.array(shape, np.int64)))
