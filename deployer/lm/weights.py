"""Initial weights of a language model, drawn from a seed by the field's rule for residual depth."""

import math

import numpy as np

from deployer.core.operator import Array
from deployer.core.traits.training import Fans
from deployer.lm.architecture import Architecture
from deployer.lm.model import Shape, shapes
from deployer.training.initial import InitialRule, drawn_weights

RESIDUAL = ("o_proj.weight", "down_proj.weight")
"""Weights whose products are added to the residual, two in each layer."""


def initial_weights(architecture: Architecture, seed: int) -> dict[str, Array]:
    """The parameters of a new model by the names of `shapes`, in float32.

    Weights and embeddings are normal with standard deviation `init_std` (Radford et al., Language Models are
    Unsupervised Multitask Learners, 2019: 0.02), those that end in the residual with init_std / sqrt(2 layers) (the
    same, section 2.3, with two such products a layer). Biases are zero, and scales of norms, with their offset, one.
    A parameter's numbers follow from the seed, its name and its shape, on every machine.
    """
    return {name: _drawn(architecture, seed, name, shape) for name, shape in shapes(architecture).items()}


def _drawn(architecture: Architecture, seed: int, name: str, shape: Shape) -> Array:
    if name.endswith(".bias"):
        return np.zeros(shape, np.float32)
    if len(shape) == 1:
        return np.full(shape, 1 - architecture.norm_offset, np.float32)
    deviation = architecture.init_std / (math.sqrt(2 * architecture.layers) if name.endswith(RESIDUAL) else 1)
    rule = InitialRule(lambda fans: deviation * deviation, is_normal=True)
    outputs, inputs = shape
    numbers = drawn_weights(rule, Fans(inputs, outputs), math.prod(shape), seed, name)
    return numbers.astype(np.float32).reshape(shape)
