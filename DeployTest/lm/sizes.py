"""Small models of each preset."""

from typing import Any

from deployer.lm.architecture import Architecture, read_architecture
from deployer.lm.presets import preset, preset_names

SMALL = {"layers": 2, "dim": 16, "heads": 4, "kv_heads": 2, "head_dim": 6, "hidden": 20, "context": 9, "vocab": 23}
"""Sizes of which none divides the next."""
FORMS: dict[str, dict[str, Any]] = {
    **{name: {"preset": name} for name in preset_names()},
    "window": {"preset": "llama", "window": 4},
    "pairs": {"preset": "llama", "rope_form": "pairs", "kv_heads": 4},
    "one head of keys": {"preset": "gemma", "kv_heads": 1},
    "biases": {"preset": "qwen3", "attention_bias": True, "output_bias": True, "mlp_bias": True, "tied": False},
    "relu": {"preset": "gpt2", "activation": "relu"},
    "gelu": {"preset": "gpt2", "activation": "gelu", "positions": "rope"},
    "silu": {"preset": "llama", "activation": "silu"},
    "geglu": {"preset": "llama", "activation": "geglu", "norm_offset": 0.5},
}
"""What differs from a preset."""


def small(form: str, **more: Any) -> Architecture:
    """The small model of a form."""
    fields = {**FORMS[form]}
    base = {**preset(fields.pop("preset")), **SMALL}
    return read_architecture({**base, **fields, **more})
