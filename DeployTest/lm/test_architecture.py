"""Architectures: presets, numbers that belong together, sizes and work, initial weights."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.frontend.model_file import load_model
from deployer.lm.architecture import Architecture, read_architecture, read_setting
from deployer.lm.graph import save_model
from deployer.lm.model import TRAINABLE, forward_model, shapes
from deployer.lm.presets import preset, preset_names
from deployer.lm.weights import initial_weights
from DeployTest.lm.sizes import FORMS, small

pytestmark = [pytest.mark.host]
KARPATHY = {
    "layers": 5,
    "dim": 64,
    "heads": 8,
    "kv_heads": 4,
    "hidden": 172,
    "vocab": 512,
    "context": 512,
    "tied": True,
}
"""The smallest model of llama2.c, stories260K."""


def test_presets_are_whole() -> None:
    """Each preset lacks the vocabulary alone."""
    assert {"llama", "qwen3", "gemma", "gpt2"} <= set(preset_names())
    for name in preset_names():
        with pytest.raises(OptionProblem, match="the architecture lacks vocab"):
            read_architecture(preset(name))
        assert read_architecture({**preset(name), "vocab": 257}).vocab == 257


def test_published_size() -> None:
    """The model of 260 thousand parameters has the published tensors: 64 * 512 + 5 layers of 45312 + 64."""
    a = read_architecture({**preset("llama"), **KARPATHY})
    attention = 64 * 64 + 2 * 64 * 32 + 64 * 64
    assert a.parameters == 512 * 64 + 5 * (attention + 3 * 64 * 172 + 2 * 64) + 64 == 260032
    assert a.weight_bytes == 4 * 260032
    assert a.cache_bytes == 4 * 2 * 5 * 512 * 32


@pytest.mark.parametrize("window", [0, 4, 9, 20])
def test_operations(window: int) -> None:
    """Two for each multiply-accumulate: weights of products, and for each key that a query sees both of attention."""
    a = small("llama", window=window)
    matrices = sum(math.prod(s) for n, s in shapes(a).items() if len(s) == 2 and "embed" not in n)
    seen = sum(min(i + 1, window or i + 1) for i in range(a.context))
    assert a.forward_flops == 2 * matrices + a.layers * round(2 * 2 * seen / a.context * a.heads * a.head_dim)
    assert a.training_flops == 3 * a.forward_flops
    assert a.cached_places == min(window or a.context, a.context)


@pytest.mark.parametrize("form", FORMS)
def test_every_weight_is_in_the_model(form: str, tmp_path: Path) -> None:
    """The file has the parameters, which the expression for trained ones matches, and constants, which it does not."""
    a = small(form)
    weights = initial_weights(a, 0)
    assert {n: x.shape for n, x in weights.items()} == shapes(a)
    assert a.parameters == sum(x.size for x in weights.values())
    save_model(forward_model(a, weights), tmp_path / "model.onnx")
    graph = load_model(tmp_path / "model.onnx").graph
    names = {tensor.name for tensor in graph.initializer}
    assert {name for name in names if re.search(TRAINABLE, name)} == weights.keys()
    read = {name for node in graph.node for name in node.input}
    assert names <= read


def test_initial_weights() -> None:
    """Standard deviations by the rule, less in front of the residual; norms are one with their offset; biases zero."""
    a = read_architecture({**preset("gpt2"), "vocab": 300, "layers": 8})
    drawn = initial_weights(a, 7)
    for name, array in drawn.items():
        if name.endswith(".bias") or array.ndim == 1:
            assert (array == (0 if name.endswith(".bias") else 1)).all(), name
            continue
        residual = name.endswith(("o_proj.weight", "down_proj.weight"))
        wanted = 0.02 / (4 if residual else 1)
        assert abs(array.std() / wanted - 1) < 6 / math.sqrt(2 * array.size), name
        assert abs(array.mean()) < 6 * wanted / math.sqrt(array.size), name
    again, other = initial_weights(a, 7), initial_weights(a, 8)
    assert all((drawn[name] == again[name]).all() for name in drawn)
    assert not (drawn["model.embed_tokens.weight"] == other["model.embed_tokens.weight"]).any()
    gemma = initial_weights(small("gemma"), 0)
    assert not gemma["model.norm.weight"].any()
    assert np.std(initial_weights(small("llama", init_std=0.5), 0)["lm_head.weight"]) > 0.3


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"layer": 3}, "has no field 'layer'\n  try            did you mean layers?"),
    ({"hiden": 3}, "did you mean hidden?"),
    ({"colour": 3}, "one of layers, dim,"),
    ({"norm": "rmsnorm"}, "norm is 'rmsnorm'"),
    ({"activation": "swiglue"}, "did you mean swiglu?"),
    ({"layers": 0}, "layers is 0\n  try            a whole number from 1 to"),
    ({"layers": 2.5}, "layers is 2.5\n  try            a whole number"),
    ({"tied": 1}, "tied is 1\n  try            true or false"),
    ({"dim": True}, "dim is True\n  try            a whole number"),
    ({"dim": 50, "head_dim": 0}, "dim is no multiple of heads"),
    ({"kv_heads": 3}, "kv_heads of 1, 2, 4"),
    ({"head_dim": 5}, "head_dim 6, or positions learned"),
    ({"norm_eps": 0.0}, "norm_eps is 0\n  try            a number above 0"),
    ({"window": -1}, "window is -1"),
    ({"norm_offset": float("nan")}, "norm_offset is nan"),
    ({"dim": 1 << 40}, "dim is 1099511627776"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_wrong_fields(fields: dict[str, Any], message: str) -> None:
    """Each is refused with its number and a way out."""
    base = {**preset("llama"), "vocab": 30, "heads": 4, "kv_heads": 2, "head_dim": 16}
    with pytest.raises(OptionProblem) as found:
        read_architecture({**base, **fields})
    assert message in str(found.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("dim=96", 96), ("tied=true", True), ("norm_eps=1e-6", 1e-6), ("norm=layer", "layer"), ("rope_base=5", 5.0)],
)
def test_settings(text: str, expected: object) -> None:
    """A text is a value of its field's type."""
    assert read_setting(text) == (text.partition("=")[0], expected)


@pytest.mark.parametrize("text", ["dim", "dimm=3", "dim=x", "tied=yes", "norm_eps=small", "dim="])
def test_wrong_settings(text: str) -> None:
    """A text that is none has an error with a proposal."""
    with pytest.raises(OptionProblem, match="try"):
        read_setting(text)


def test_record() -> None:
    """An architecture is read back from its record, through JSON."""
    a = small("gemma", window=3)
    assert read_architecture(json.loads(json.dumps(a.record))) == a
    assert isinstance(a, Architecture)
