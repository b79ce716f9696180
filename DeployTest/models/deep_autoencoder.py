"""DeepAutoencoder: 640-128-128-128-8-128-128-128-640, Relu between, mean squared error against its input."""

from pathlib import Path
from typing import Any

from .parts import dense
from .parts.generator import main

WIDTHS = (640, 128, 128, 128, 8, 128, 128, 128, 640)
LABELS = tuple(f"fc{i}" for i in range(1, len(WIDTHS)))


def generate(out: Path, *, batch: int = 1, samples: int = 4, seed: int = 0, **options: Any) -> Path:
    """Write a DeepAutoencoder case to `out`; returns its *_train folder."""
    return dense.autoencoder(
        out, "deep_autoencoder", WIDTHS, LABELS, batch=batch, samples=samples, seed=seed, **options
    )


if __name__ == "__main__":
    main(generate)
