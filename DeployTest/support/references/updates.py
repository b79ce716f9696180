"""Every form of the optimizers: as the compiler has it, as a formula in float64, and as PyTorch has it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deployer.core.operator import Operator
from deployer.training.settings import with_settings

Array = np.ndarray[Any, Any]
Step = Callable[[Array, Array, list[Array], int], tuple[Array, ...]]
RATE = 0.01


def _sgd(lr: float, decay: float = 0.0, momentum: float = 0.0, nesterov: bool = False) -> Step:
    """torch.optim.SGD's algorithm with dampening 0."""

    def step(w: Array, g: Array, states: list[Array], count: int) -> tuple[Array, ...]:
        g = g + decay * w
        if not states:
            return (w - lr * g,)
        v = momentum * states[0] + g
        return w - lr * (g + momentum * v if nesterov else v), v

    return step


def _adam(lr: float, beta1: float, beta2: float, eps: float, decay: float, apart: bool) -> Step:
    """Kingma and Ba 2015, algorithm 1; with `apart` the decay of Loshchilov and Hutter 2019, algorithm 2."""

    def step(w: Array, g: Array, states: list[Array], count: int) -> tuple[Array, ...]:
        g, w = (g, w - lr * decay * w) if apart else (g + decay * w, w)
        m = beta1 * states[0] + (1 - beta1) * g
        v = beta2 * states[1] + (1 - beta2) * g**2
        return w - lr * (m / (1 - beta1**count)) / (np.sqrt(v / (1 - beta2**count)) + eps), m, v

    return step


def _rmsprop(lr: float, alpha: float, eps: float, decay: float, momentum: float = 0.0) -> Step:
    """torch.optim.RMSprop's algorithm, not centered."""

    def step(w: Array, g: Array, states: list[Array], count: int) -> tuple[Array, ...]:
        g = g + decay * w
        v = alpha * states[0] + (1 - alpha) * g**2
        move = g / (np.sqrt(v) + eps)
        if len(states) == 1:
            return w - lr * move, v
        b = momentum * states[1] + move
        return w - lr * b, v, b

    return step


def _adagrad(lr: float, eps: float, decay: float) -> Step:
    """Duchi, Hazan and Singer 2011, with a diagonal matrix."""

    def step(w: Array, g: Array, states: list[Array], count: int) -> tuple[Array, ...]:
        g = g + decay * w
        v = states[0] + g**2
        return w - lr * g / (np.sqrt(v) + eps), v

    return step


@dataclass(frozen=True)
class Update:
    """A choice with settings, as the compiler, a formula and PyTorch have it."""

    choice: str
    formula: Callable[..., Step]
    settings: Mapping[str, float] = field(default_factory=dict)
    formula_words: Mapping[str, Any] = field(default_factory=dict)
    torch: str = "SGD"
    torch_words: Mapping[str, Any] = field(default_factory=dict)

    def operator(self) -> tuple[Operator, dict[str, float]]:
        """The operator, and the attributes of its node."""
        operator, attributes = with_settings(self.choice, self.settings)
        return operator, {"lr": RATE, **attributes}


def _given(**numbers: float) -> dict[str, float]:
    return {name.replace("_", "-"): number for name, number in numbers.items()}


ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
BETAS = {"beta1": 0.75, "beta2": 0.96875, "eps": 2.0**-10}
TORCH_ADAM = {"betas": (0.9, 0.999), "eps": 1e-8}
TORCH_BETAS = {"betas": (0.75, 0.96875), "eps": 2.0**-10}
UPDATES = {
    "sgd": Update("sgd", _sgd),
    "sgd_decay": Update("sgd", _sgd, _given(weight_decay=0.25), {"decay": 0.25}, torch_words={"weight_decay": 0.25}),
    "sgd_momentum": Update("sgd", _sgd, _given(momentum=0.875), {"momentum": 0.875}, "SGD", {"momentum": 0.875}),
    "sgd_nesterov": Update(
        "sgd",
        _sgd,
        _given(momentum=0.875, weight_decay=0.25, nesterov=1),
        {"momentum": 0.875, "decay": 0.25, "nesterov": True},
        "SGD",
        {"momentum": 0.875, "weight_decay": 0.25, "nesterov": True},
    ),
    "adam": Update("adam", _adam, {}, {**ADAM, "decay": 0.0, "apart": False}, "Adam", TORCH_ADAM),
    "adam_settings": Update(
        "adam",
        _adam,
        _given(**BETAS, weight_decay=0.25),
        {**BETAS, "decay": 0.25, "apart": False},
        "Adam",
        {**TORCH_BETAS, "weight_decay": 0.25},
    ),
    "adamw": Update("adamw", _adam, {}, {**ADAM, "decay": 0.01, "apart": True}, "AdamW", TORCH_ADAM),
    "adamw_settings": Update(
        "adamw",
        _adam,
        _given(**BETAS, weight_decay=0.25),
        {**BETAS, "decay": 0.25, "apart": True},
        "AdamW",
        {**TORCH_BETAS, "weight_decay": 0.25},
    ),
    "rmsprop": Update(
        "rmsprop", _rmsprop, {}, {"alpha": 0.99, "eps": 1e-8, "decay": 0.0}, "RMSprop", {"alpha": 0.99, "eps": 1e-8}
    ),
    "rmsprop_momentum": Update(
        "rmsprop",
        _rmsprop,
        _given(alpha=0.75, eps=2.0**-10, weight_decay=0.25, momentum=0.5),
        {"alpha": 0.75, "eps": 2.0**-10, "decay": 0.25, "momentum": 0.5},
        "RMSprop",
        {"alpha": 0.75, "eps": 2.0**-10, "weight_decay": 0.25, "momentum": 0.5},
    ),
    "adagrad": Update("adagrad", _adagrad, {}, {"eps": 1e-10, "decay": 0.0}, "Adagrad"),
    "adagrad_settings": Update(
        "adagrad",
        _adagrad,
        _given(eps=2.0**-10, weight_decay=0.25),
        {"eps": 2.0**-10, "decay": 0.25},
        "Adagrad",
        {"eps": 2.0**-10, "weight_decay": 0.25},
    ),
}


def narrow(words: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers as float32 has them."""

    def one(x: Any) -> Any:
        return tuple(map(one, x)) if isinstance(x, tuple) else float(np.float32(x)) if isinstance(x, float) else x

    return {name: one(x) for name, x in words.items()}
