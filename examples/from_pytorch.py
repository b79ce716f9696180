"""A PyTorch module becomes a training case: digits of 8x8 pixels, made by shifting and blurring ten drawn patterns.

Needs PyTorch (`pip install torch onnxscript`). Writes `model.onnx` and `data.npz` into the folder named on the command
line.
"""

import sys
from pathlib import Path

import numpy as np
import torch

BATCH, PASSES, SIZE = 4, 128, 8


class Net(torch.nn.Module):
    """[4, 1, 8, 8] images to [4, 10] logits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.dense = torch.nn.Linear(8 * 4 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits of a mini-batch."""
        features = torch.nn.functional.max_pool2d(torch.relu(self.conv(image)), 2)
        return self.dense(torch.flatten(features, 1))


def samples(generator: np.random.Generator) -> dict[str, np.ndarray]:
    """One mini-batch per pass: images [128, 4, 1, 8, 8] and labels [128, 4]."""
    patterns = generator.normal(0, 1, (10, SIZE, SIZE))
    labels = generator.integers(0, 10, (PASSES, BATCH))
    shifts = generator.integers(-1, 2, (PASSES, BATCH))
    images = np.stack([np.roll(patterns[k], s, axis=1) for k, s in zip(labels.flat, shifts.flat, strict=True)])
    images = images.reshape(PASSES, BATCH, 1, SIZE, SIZE) + generator.normal(0, 0.3, (PASSES, BATCH, 1, SIZE, SIZE))
    return {"image": images.astype(np.float32), "labels": labels}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(3)
    torch.onnx.export(
        Net(),
        (torch.zeros(BATCH, 1, SIZE, SIZE),),
        str(folder / "model.onnx"),
        input_names=["image"],
        output_names=["logits"],
        opset_version=18,
        external_data=False,
    )
    np.savez(folder / "data.npz", **samples(np.random.default_rng(3)))
