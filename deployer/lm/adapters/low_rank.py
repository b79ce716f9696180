"""Adapters of low rank: narrow products beside linear layers, which are trained while the layers' weights stay.

Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021: W x + alpha / rank B A x, with B zero at first.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.core.traits.training import Fans
from deployer.training.initial import RULES, drawn_weights

DOWN, UP = "lora_A.weight", "lora_B.weight"
"""The ends of the names of A [rank, inputs] and B [outputs, rank], as Hugging Face's PEFT has them."""
ADAPTERS = r"\.lora_[AB]\.weight$"
"""The names of adapters, as a regular expression."""
WEIGHT = ".weight"
NARROW = ("norm", "embed", "lm_head")
"""Parts of names of weights that are none of a linear layer within a block."""


@dataclass(frozen=True)
class LowRank:
    """Adapters of the linear layers whose names `pattern` matches; their products count `alpha` / `rank`.

    In training each adapter drops a share of `dropout` of its inputs, drawn for it alone, and scales the others.
    """

    pattern: str
    rank: int
    alpha: float
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Raise OptionProblem for a pattern that is none, and for numbers without meaning."""
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise OptionProblem(
                f"--lora {self.pattern!r} is no regular expression: {error}", hint="such as q_proj"
            ) from None
        if self.rank < 1 or not (math.isfinite(self.alpha) and self.alpha > 0):
            facts = [("rank", str(self.rank)), ("alpha", f"{self.alpha:g}")]
            raise OptionProblem("adapters have no such numbers", facts, "a rank of at least 1, and an alpha above 0")
        if not 0 <= self.dropout < 1:
            raise OptionProblem(f"dropout of adapters is {self.dropout:g}", hint="a share from 0 to below 1")

    @property
    def scale(self) -> float:
        """The factor of the products."""
        return self.alpha / self.rank

    @property
    def evaluated(self) -> "LowRank":
        """The adapters as they are used once trained: nothing is dropped."""
        return replace(self, dropout=0.0)

    def is_adapted(self, layer: str) -> bool:
        """Whether the linear layer of that name has an adapter."""
        return re.search(self.pattern, layer) is not None

    def layers(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
        """The adapted layers of a model with weights of these shapes; OptionProblem where there is none."""
        known = linear_layers(shapes)
        found = tuple(filter(self.is_adapted, known))
        if not found:
            ends = dict.fromkeys(name.rpartition(".")[2] for name in known)
            raise OptionProblem(f"--lora {self.pattern!r} matches no linear layer", hint=f"one of {', '.join(ends)}")
        return found

    def shapes(self, model: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The shapes of the adapters of such a model."""
        found: dict[str, tuple[int, ...]] = {}
        for layer in self.layers(model):
            outputs, inputs = model[f"{layer}{WEIGHT}"]
            found |= {f"{layer}.{DOWN}": (self.rank, inputs), f"{layer}.{UP}": (outputs, self.rank)}
        return found

    def initial(self, model: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Array]:
        """New adapters: A uniform within 1 / sqrt(inputs), as PEFT has it, and B zero."""
        drawn = {}
        for name, shape in self.shapes(model).items():
            count = math.prod(shape)
            fans = Fans(shape[1], shape[0])
            begins = name.endswith(DOWN)
            numbers = drawn_weights(RULES["fan_in_uniform"], fans, count, seed, name) if begins else np.zeros(count)
            drawn[name] = numbers.astype(np.float32).reshape(shape)
        return drawn

    def merged(self, weights: Mapping[str, Array], adapters: Mapping[str, Array]) -> dict[str, Array]:
        """The weights with the adapters' products added, in float64 and rounded once."""
        found = dict(weights)
        for name in [name for name in adapters if name.endswith(DOWN)]:
            layer = name.removesuffix(f".{DOWN}")
            product = adapters[f"{layer}.{UP}"].astype(np.float64) @ adapters[name].astype(np.float64)
            weight = weights[f"{layer}{WEIGHT}"].astype(np.float64) + self.scale * product
            found[f"{layer}{WEIGHT}"] = weight.astype(np.float32)
        return found


def linear_layers(shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """The names of the linear layers within the blocks of a model with weights of these shapes."""
    return [n.removesuffix(WEIGHT) for n, s in shapes.items() if len(s) == 2 and not any(p in n for p in NARROW)]
