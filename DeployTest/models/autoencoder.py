"""Autoencoder: 128-64-32-64-64-32-64-128, Relu between, mean squared error against its input."""

from pathlib import Path
from typing import Any

from .parts import dense
from .parts.generator import main

WIDTHS = (128, 64, 32, 64, 64, 32, 64, 128)
LABELS = ("encoder.0", "encoder.2", "encoder.4", "decoder.0", "decoder.2", "decoder.4", "decoder.6")


def generate(out: Path, *, batch: int = 1, samples: int = 4, seed: int = 0, **options: Any) -> Path:
    """Write an Autoencoder case to `out`; returns its *_train folder."""
    return dense.autoencoder(out, "autoencoder", WIDTHS, LABELS, batch=batch, samples=samples, seed=seed, **options)


if __name__ == "__main__":
    main(generate)
