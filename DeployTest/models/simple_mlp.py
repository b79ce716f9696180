"""SimpleMLP: 64-8-10 with cross entropy; the weights train, the biases are frozen."""

from pathlib import Path
from typing import Any

from .parts.dense import dense
from .parts.generator import main, training_case

WIDTHS, LABELS = (64, 8, 10), ("fc1", "fc2")


def generate(out: Path, *, batch: int = 1, seed: int = 0, **options: Any) -> Path:
    """Write a SimpleMLP case to `out`; returns its *_train folder."""
    model = dense(out / "simple_mlp.onnx", WIDTHS, LABELS, batch, seed, relu=False)
    return training_case(model, "cross_entropy", r"weight$", seed=seed + 1, **options).train


if __name__ == "__main__":
    main(generate)
