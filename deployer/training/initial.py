"""Initial weights by rule, for a file without useful ones: drawn from a seed, by a weight's fan-in and fan-out.

How wide a weight is, is declared by the operator that multiplies with it. The numbers follow from the seed and the
parameter's name by integers and by float64 operations that IEEE 754 defines to the bit, so they are the same on every
machine, whatever else is trained.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from deployer.core.errors import OptionProblem
from deployer.core.operator import training_of
from deployer.core.safe_text import one_line
from deployer.core.traits.training import Fans
from deployer.frontend.raw_graph import RawConstant
from deployer.operators.base.philox import WORDS, drawn
from deployer.training.forward import Forward

BLOCK = 1 << 18
"""Numbers that are drawn at once, so that little memory is taken beside them."""
Reals = npt.NDArray[np.float64]

MIDDLE = 0.425
"""Distance from 1/2 within which the quotient of polynomials for the middle holds."""
MIDDLE_TOP = (
    *(2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457),
    *(13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
)
MIDDLE_BOTTOM = (
    *(5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867),
    *(5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)
"""The polynomials, highest power first, of `MIDDLE` squared without the square of the distance."""
TAIL = 1.6
"""What is taken from the root of the logarithm in the tails."""
TAIL_TOP = (
    *(7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258),
    *(3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
)
TAIL_BOTTOM = (
    *(1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459),
    *(0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)
LOG_2 = 0.6931471805599453094
TERMS = 12
"""Terms of the series of the logarithm: the first that is left out is below 2^-53 of it."""


@dataclass(frozen=True)
class InitialRule:
    """Distribution of initial weights: normal, or uniform around zero, with a variance from fan-in and fan-out."""

    variance: Callable[[Fans], float]
    is_normal: bool = False


def _xavier(fans: Fans) -> float:
    """Glorot, Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010, equation 12."""
    return 2 / (fans.inputs + fans.outputs)


def _kaiming(fans: Fans) -> float:
    """He et al., Delving deep into rectifiers, 2015, equation 10: before a Relu."""
    return 2 / fans.inputs


def _lecun(fans: Fans) -> float:
    """LeCun et al., Efficient BackProp, 1998, equation 16."""
    return 1 / fans.inputs


def _layers(fans: Fans) -> float:
    """Uniform within 1 / sqrt(inputs): what PyTorch's Linear and Conv begin with."""
    return 1 / (3 * fans.inputs)


RULES: Mapping[str, InitialRule] = {
    "xavier_uniform": InitialRule(_xavier),
    "xavier_normal": InitialRule(_xavier, is_normal=True),
    "kaiming_uniform": InitialRule(_kaiming),
    "kaiming_normal": InitialRule(_kaiming, is_normal=True),
    "lecun_uniform": InitialRule(_lecun),
    "lecun_normal": InitialRule(_lecun, is_normal=True),
    "fan_in_uniform": InitialRule(_layers),
}
"""Rules by their names on the command line."""


def with_initial(model: Forward, parameters: Sequence[str], name: str, seed: int) -> tuple[Forward, tuple[str, ...]]:
    """The model with those of the parameters drawn by the rule of that name that are weights; and which these are.

    A weight is what an operator multiplies by and adds up, as it is or after other operators that read nothing but
    constants and parameters, such as a transposition; where several do, the first says how wide it is. Everything
    else, such as biases, scales of norms and tables of rows, is left as the file has it.
    Raises OptionProblem for an unknown rule, and where none of the parameters is a weight.
    """
    if name not in RULES:
        raise OptionProblem(f"there is no initial rule {name!r}", hint=f"one of {', '.join(RULES)}")
    fans = widths(model, parameters)
    if not fans:
        facts = [("trained", one_line(", ".join(parameters)))]
        hint = "leave --init out: biases, scales and tables stay as the file has them"
        raise OptionProblem("--init has no effect: no operator multiplies by a parameter and adds up", facts, hint)
    constants = dict(model.raw.constants)
    for parameter, fan in fans.items():
        shape = constants[parameter].shape
        array = drawn_weights(RULES[name], fan, math.prod(shape), seed, parameter).astype(np.float32)
        constants[parameter] = RawConstant("float32", shape, array.tobytes())
    return replace(model, raw=replace(model.raw, constants=constants)), tuple(fans)


def widths(model: Forward, parameters: Sequence[str]) -> dict[str, Fans]:
    """Return fan-in and fan-out of each parameter that is a weight, in the order of the parameters."""
    types = model.resolved(model.parameter_types({name: name for name in parameters})).types
    origins: dict[str, set[str]] = {name: {name} for name in parameters}
    found: dict[str, Fans] = {}
    for node in model.raw.nodes:
        read = [name for name in node.inputs if name in origins]
        if not read:
            continue
        fans = training_of(node).fans(node, types)
        for position, name in enumerate(node.inputs):
            for parameter in origins.get(name, ()) if position in fans else ():
                found.setdefault(parameter, fans[position])
        if all(name in origins or name in model.raw.constants for name in node.inputs if name):
            made = set().union(*(origins[name] for name in read))
            origins |= {output: made for output in node.outputs if output}
    return {name: found[name] for name in parameters if name in found}


def drawn_weights(rule: InitialRule, fans: Fans, count: int, seed: int, name: str) -> Reals:
    """So many numbers of the rule, in float64, which follow from the seed and the name."""
    key = int.from_bytes(sha256(f"{seed} {name}".encode()).digest()[: 2 * WORDS], "little")
    scale = math.sqrt(rule.variance(fans))
    values = np.empty(count)
    for stream, begin in enumerate(range(0, count, BLOCK)):
        block = values[begin : begin + BLOCK]
        words = drawn(key, stream, 0, len(block)).astype(np.float64)
        open_unit = (words + 0.5) / 2.0**32  # within 0 and 1, and exact
        block[:] = (normal_quantile(open_unit) if rule.is_normal else (2 * open_unit - 1) * math.sqrt(3)) * scale
    return values


def normal_quantile(share: Reals) -> Reals:
    """The number below which that share of normal numbers is, for shares from exp(-25) to 1 - exp(-25).

    M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution, 1988, PPND16.
    """
    distance = share - 0.5
    inner = MIDDLE * MIDDLE - distance * distance
    middle = distance * _polynomial(MIDDLE_TOP, inner) / _polynomial(MIDDLE_BOTTOM, inner)
    outer = np.sqrt(-natural_log(np.minimum(share, 1 - share))) - TAIL
    tail = np.copysign(_polynomial(TAIL_TOP, outer) / _polynomial(TAIL_BOTTOM, outer), distance)
    return np.where(np.abs(distance) <= MIDDLE, middle, tail)


def natural_log(x: Reals) -> Reals:
    """The logarithm of positive numbers: 2 artanh((m - 1) / (m + 1)) of the mantissa m, by its series."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    ratio = (mantissa - 1) / (mantissa + 1)
    series = _polynomial([1 / (2 * k + 1) for k in reversed(range(TERMS))], ratio * ratio)
    return np.asarray(2 * ratio * series + exponent * LOG_2)


def _polynomial(coefficients: Sequence[float], x: Reals) -> Reals:
    """By Horner's rule, highest power first; numpy rounds each product and each sum."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
