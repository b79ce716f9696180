"""CCT-2, a compact convolutional transformer for 32x32 images: the tokenizer is frozen, the encoders train.

Two convolutions with pooling make 64 tokens of 128 numbers, two encoder blocks of two heads follow, then a mean by
shares and a classifier of ten classes (Hassani et al., Escaping the Big Data Paradigm with Compact Transformers).
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .parts.convnet import ConvNet
from .parts.encoder import Encoder
from .parts.generator import Value, main, save_forward, training_case

IMAGE, CLASSES = 32, 10
FILTERS, WIDTH, HIDDEN, HEADS, BLOCKS = 64, 128, 256, 2, 2


def generate(
    out: Path,
    *,
    batch: int = 1,
    samples: int = 2,
    seed: int = 0,
    image: int = IMAGE,
    filters: int = FILTERS,
    width: int = WIDTH,
    hidden: int = HIDDEN,
    blocks: int = BLOCKS,
    **options: Any,
) -> Path:
    """Write a CCT case to `out`; returns its *_train folder."""
    net = ConvNet("cct", (batch, 3, image, image), seed, batch_norm=False)
    for number, channels in enumerate((filters, width)):
        net.conv(f"tokenizer.{number}", channels, (3, 3))
        net.relu(f"tokenizer.{number}.relu")
        net.pool(f"tokenizer.{number}.pool")
    tokens = net.tokens("tokens")
    encoder = Encoder(net.graph, net.generator, (batch, tokens, width))

    def block(x: Value, label: str) -> Value:
        mixed = encoder.attention(f"{label}.", encoder.norm(f"{label}.pre", x), HEADS, bias=False)
        x = encoder.norm(f"{label}.norm", encoder.node("Add", f"{label}.residual1", mixed, x))
        return encoder.node("Add", f"{label}.residual2", encoder.feed(f"{label}.", x, hidden), x)

    drawn = (0.2 * net.generator.standard_normal((1, tokens, width))).astype(np.float32)
    x = encoder.node("Add", "placed", net.x, gs.Constant("positions", drawn))
    for number in range(blocks):
        x = block(x, f"block{number}")
    x = encoder.norm("norm", x)
    shares = encoder.node("Softmax", "shares", encoder.linear("pool", x, width, 1), axis=1)
    turned = encoder.node("Transpose", "shares.turned", shares, perm=[0, 2, 1])
    net.x, net.shape = encoder.node("MatMul", "pooled", turned, x), (batch, width, 1, 1)
    net.classes(CLASSES)
    model = save_forward(out / "cct.onnx", net.graph, net.x, net.shape)
    trained = r"^(?!tokenizer).*(weight|bias|positions)$"
    return training_case(model, "cross_entropy", trained, seed=seed + 1, samples=samples, **options).train


if __name__ == "__main__":
    main(generate)
