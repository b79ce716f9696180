"""Architectures of language models: decoders of attention and feed-forward layers, described by numbers and words."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from deployer.core.errors import OptionProblem
from deployer.fitting.argument_names import meant

NORMS = ("rms", "layer")
POSITIONS = ("rope", "learned")
ROPE_FORMS = ("halves", "pairs")
GATED = ("swiglu", "geglu", "geglu_tanh")
"""Activations of a gate that multiplies a second product."""
ACTIVATIONS = (*GATED, "silu", "gelu", "gelu_tanh", "relu")
CHOICES = {"norm": NORMS, "activation": ACTIVATIONS, "positions": POSITIONS, "rope_form": ROPE_FORMS}
BYTES = 4
"""Bytes of a float32."""
MOST = 1 << 24
"""The largest size of an axis: everything above is a mistake."""
KINDS: Mapping[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


@dataclass(frozen=True)
class Architecture:
    """A decoder: `layers` blocks of attention and feed-forward layer, each behind a norm and beside a residual.

    `dim` is the width of a token, `hidden` that between both products of the feed-forward layer, `head_dim` that of a
    head, by default dim / heads. `kv_heads` key-value heads (default: as many as heads) serve neighbouring heads of
    queries. `qk_norm` normalizes each head's queries and keys. `norm_offset` is added to the scales of norms, and
    `embedding_scale` multiplies embeddings. `tied` uses the embeddings as the output's weights. A token sees itself
    and the `window` - 1 tokens before it, with 0 all before it. `context` is the length of a sequence in tokens,
    `vocab` the number of ids. `init_std` is the standard deviation of new weights.
    """

    layers: int
    dim: int
    heads: int
    hidden: int
    context: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    norm: str = "rms"
    norm_eps: float = 1e-5
    norm_offset: float = 0.0
    activation: str = "swiglu"
    positions: str = "rope"
    rope_base: float = 10000.0
    rope_form: str = "halves"
    qk_norm: bool = False
    tied: bool = False
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    embedding_scale: float = 1.0
    window: int = 0
    init_std: float = 0.02

    def __post_init__(self) -> None:
        """Fill in defaults that follow from others; OptionProblem for numbers that do not belong together."""
        for name, value in asdict(self).items():
            _check_kind(name, value)
        for name in ("layers", "dim", "heads", "hidden", "context", "vocab"):
            _check_least(name, getattr(self, name), 1)
        for name in ("kv_heads", "head_dim", "window"):
            _check_least(name, getattr(self, name), 0)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise OptionProblem(f"{name} is {getattr(self, name)!r}", hint=_or_one_of(getattr(self, name), choices))
        for name in ("norm_eps", "rope_base", "embedding_scale", "init_std"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise OptionProblem(f"{name} is {getattr(self, name):g}", hint="a number above 0")
        if not math.isfinite(self.norm_offset):
            raise OptionProblem(f"norm_offset is {self.norm_offset:g}", hint="a finite number, such as 0 or 1")
        if not self.kv_heads:
            object.__setattr__(self, "kv_heads", self.heads)
        if not self.head_dim:
            if self.dim % self.heads:
                facts = [("dim", str(self.dim)), ("heads", str(self.heads))]
                near = max(self.dim // self.heads, 1) * self.heads
                hint = f"dim {near}, or head_dim as a number of its own"
                raise OptionProblem("dim is no multiple of heads, so a head has no width", facts, hint)
            object.__setattr__(self, "head_dim", self.dim // self.heads)
        if self.heads % self.kv_heads:
            known = [str(n) for n in range(1, self.heads + 1) if not self.heads % n]
            facts = [("heads", str(self.heads)), ("kv_heads", str(self.kv_heads))]
            raise OptionProblem("heads is no multiple of kv_heads", facts, f"kv_heads of {', '.join(known)}")
        if self.positions == "rope" and self.head_dim % 2:
            cause = f"head_dim is {self.head_dim}, and rope turns pairs of its elements"
            raise OptionProblem(cause, hint=f"head_dim {self.head_dim + 1}, or positions learned")

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward layer has a gate."""
        return self.activation in GATED

    @property
    def query_dim(self) -> int:
        """The width of all heads' queries."""
        return self.heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        """The width of all heads' keys, and of their values."""
        return self.kv_heads * self.head_dim

    @property
    def parameters(self) -> int:
        """The number of trained numbers; tied ones count once."""
        from deployer.lm.model import shapes

        return sum(math.prod(shape) for shape in shapes(self).values())

    @property
    def weight_bytes(self) -> int:
        """Bytes of the parameters in float32."""
        return self.parameters * BYTES

    @property
    def cached_places(self) -> int:
        """TokenPlaces of a sequence whose keys and values decoding needs."""
        return min(self.window or self.context, self.context)

    @property
    def cache_bytes(self) -> int:
        """Bytes of the keys and values of one sequence of all layers in float32."""
        return 2 * self.layers * self.cached_places * self.kv_dim * BYTES

    @property
    def forward_flops(self) -> int:
        """Floating-point operations per token of a full context, forward: two for each multiply-accumulate.

        Products with weights, and scores and mixtures of attention over the keys that a query sees on average.
        """
        feed = (3 if self.is_gated else 2) * self.dim * self.hidden
        layer = 2 * self.dim * self.query_dim + 2 * self.dim * self.kv_dim + feed
        return 2 * (self.layers * layer + self.dim * self.vocab) + self.layers * self._attention_flops

    @property
    def _attention_flops(self) -> int:
        reach = self.cached_places
        seen = (reach * (reach + 1) // 2 + (self.context - reach) * reach) / self.context
        return round(2 * 2 * seen * self.query_dim)

    @property
    def training_flops(self) -> int:
        """Floating-point operations per token of training: forward, and twice as many backward."""
        return 3 * self.forward_flops

    @property
    def facts(self) -> dict[str, int]:
        """Sizes and work by name, as commands show them."""
        return {
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
            "cache_bytes": self.cache_bytes,
            "forward_flops_per_token": self.forward_flops,
            "training_flops_per_token": self.training_flops,
        }

    @property
    def record(self) -> dict[str, Any]:
        """The fields by name, as `read_architecture` takes them."""
        return asdict(self)


def read_architecture(values: Mapping[str, Any], place: str = "the architecture") -> Architecture:
    """The architecture of fields by name; OptionProblem, which names `place`, for unknown, missing and wrong ones."""
    known = {field.name: field for field in fields(Architecture)}
    for name in values:
        if name not in known:
            raise OptionProblem(f"{place} has no field {name!r}", hint=_or_one_of(name, known))
    missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
    if missing:
        raise OptionProblem(f"{place} lacks {', '.join(missing)}", hint="a preset, or all of these as name=value")
    numbers = {name: _as_declared(known[name].type, value) for name, value in values.items()}
    return Architecture(**numbers)


def read_setting(text: str) -> tuple[str, Any]:
    """The field and the value of a text such as dim=96; OptionProblem for what is none."""
    name, sign, value = text.partition("=")
    known = {field.name: field.type for field in fields(Architecture)}
    if not sign:
        raise OptionProblem(f"{text!r} is not NAME=VALUE", hint="a field of the architecture, such as dim=96")
    if name not in known:
        raise OptionProblem(f"the architecture has no field {name!r}", hint=_or_one_of(name, known))
    return name, _parsed(name, known[name], value)


def _parsed(name: str, kind: Any, text: str) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise OptionProblem(f"{name} is {text!r}", hint=f"{name}=true or {name}=false")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise OptionProblem(f"{name} is {text!r}", hint=f"{KINDS[kind]}, such as {_example(name, kind)}") from None


def _example(name: str, kind: Any) -> str:
    return f"{name}={ {int: '64', float: '0.5'}.get(kind, '...') }"


def _as_declared(kind: Any, value: Any) -> Any:
    """A whole number for a field of floats is one."""
    return float(value) if kind is float and type(value) is int else value


def _check_kind(name: str, value: Any) -> None:
    kind = next(field.type for field in fields(Architecture) if field.name == name)
    if type(value) is not kind:
        raise OptionProblem(f"{name} is {value!r}", hint=f"{KINDS[kind]}")  # type: ignore[index]


def _check_least(name: str, value: int, least: int) -> None:
    if not least <= value <= MOST:
        raise OptionProblem(f"{name} is {value}", hint=f"a whole number from {least} to {MOST}")


def _or_one_of(name: object, choices: Iterable[str]) -> str:
    """A hint with the name that was probably meant, or all of them."""
    known = list(choices)
    guess = meant(str(name), known)
    return f"did you mean {guess}?" if guess in known else f"one of {', '.join(known)}"
