"""Strategies of the server: new global weights of those that devices reply, in float64 and in the order of devices.

Every sum goes over devices in the order of their numbers and is rounded to float32 once, so that neither the order in
which replies arrive nor the number of workers changes a bit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.fleets.compression import Array, Arrays
from deployer.fleets.options import FEDADAM, FEDAVG, FEDAVGM

FIRST, SECOND = "server_m/", "server_v/"
"""Prefixes of the server's first and second moments; the name of a weight follows."""


@dataclass(frozen=True)
class DevicePart:
    """A device's part in an average: its number, its samples, and its arrays."""

    device: int
    samples: int
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class FleetStrategy:
    """A strategy by its name, and its numbers: the server rate, both betas, epsilon, and the proximal mu.

    FedAvg and FedProx take the mean of weights. FedAvgM (Hsu, Qi and Brown, 2019) and FedAdam (Reddi et al., 2021)
    take the change to that mean for a gradient of the server's own optimizer.
    """

    name: str = FEDAVG
    server_lr: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-3
    mu: float = 0.0


@dataclass
class ServerState:
    """Global weights in float32, and the moments of the server's optimizer in float64."""

    weights: Arrays
    moments: Arrays = field(default_factory=dict)


def mean_of(parts: Sequence[DevicePart], name: str) -> Array:
    """The mean of an array over devices, weighted by their samples, in float64."""
    ordered = sorted(parts, key=lambda part: part.device)
    total = np.zeros(ordered[0].arrays[name].shape, np.float64)
    for part in ordered:
        total += np.float64(part.samples) * part.arrays[name].astype(np.float64)
    return total / np.float64(sum(part.samples for part in ordered))


def stepped(
    strategy: FleetStrategy,
    state: ServerState,
    parts: Sequence[DevicePart],
    are_changes: bool,
    plain: Sequence[str] = (),
) -> ServerState:
    """The state after a round: `parts` have weights, or changes of those that the round began with.

    Arrays that are `plain`, such as running statistics, are always averaged as they are.
    """
    weights, moments = dict(state.weights), dict(state.moments)
    for name in parts[0].arrays:
        mean, before = mean_of(parts, name), state.weights[name].astype(np.float64)
        if name in plain:
            weights[name] = mean.astype(np.float32)
        elif strategy.name in (FEDAVGM, FEDADAM):
            change = mean if are_changes else mean - before
            weights[name] = (before + _server_step(strategy, moments, name, change)).astype(np.float32)
        else:
            weights[name] = (before + mean if are_changes else mean).astype(np.float32)
    return ServerState(weights, moments)


def _server_step(strategy: FleetStrategy, moments: Arrays, name: str, change: Array) -> Array:
    """The step of the server's optimizer along a change; its moments go on."""
    first = moments.get(FIRST + name, np.zeros(change.shape, np.float64))
    if strategy.name == FEDAVGM:
        moments[FIRST + name] = first = strategy.beta1 * first + change
        return strategy.server_lr * first
    second = moments.get(SECOND + name, np.zeros(change.shape, np.float64))
    moments[FIRST + name] = first = strategy.beta1 * first + (1 - strategy.beta1) * change
    moments[SECOND + name] = second = strategy.beta2 * second + (1 - strategy.beta2) * change**2
    return strategy.server_lr * first / (np.sqrt(second) + strategy.epsilon)
