"""The distance of a quantized model from the float one: noise of each layer, outputs, bytes, and metrics of both."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deployer.core.operator import Array


@dataclass
class Noise:
    """Sums over all elements of a value: squares of floats, and of their differences from those of 8 bits."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, floats: Array, others: Array) -> None:
        """Take more elements into account."""
        wide = floats.astype(np.float64)
        self.signal += float(np.square(wide).sum())
        self.noise += float(np.square(wide - others).sum())

    @property
    def decibels(self) -> float:
        """The ratio of signal to noise in dB; infinite without noise."""
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def relative(self) -> float:
        """The noise as a share of the signal, as norms."""
        return math.sqrt(self.noise / self.signal) if self.signal else math.inf


@dataclass(frozen=True)
class LayerRow:
    """A node that is computed in integers: the value that it becomes, that value's scale and zero, and its noise."""

    name: str
    op: str
    value: str
    scale: float
    zero: int
    snr_db: float
    relative_error: float
    weight_scales: tuple[float, float] | None = None


@dataclass(frozen=True)
class QuantizedModel:
    """A quantized model's file, and what is known of it.

    `layers` are those in integers in order, `float_nodes` nodes of the part that stay float with the reason, `folded`
    nodes with the layer that has taken them up. `bytes_before` and `bytes_after` are those of the parameters of
    layers in integers, scales included. `output_snr_db` is that of each output of the model in dB, `float_metrics` and
    `metrics` what was measured of both models.
    """

    output: Path
    samples: int
    layers: tuple[LayerRow, ...]
    float_nodes: Mapping[str, str]
    folded: Sequence[tuple[str, str]]
    bytes_before: int
    bytes_after: int
    output_snr_db: Mapping[str, float]
    float_metrics: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
