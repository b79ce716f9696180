"""Check of PTX: each operation on floats rounds once, to nearest even, and keeps subnormal numbers."""

import re
from collections import Counter
from collections.abc import Iterator

from deployer.core.errors import ToolFailed

_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.]*\.\w+)\s", re.MULTILINE)
"""An instruction with its suffixes, behind its predicate."""
FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f64"}
EXACT = {"mov", "neg", "abs", "min", "max", "setp", "set", "selp", "slct", "testp", "copysign"}
"""Instructions without rounding."""
MEMORY = {"ld", "ldu", "st", "shfl", "atom"}
"""Instructions that move words, with other suffixes for floats."""
ALLOWED = {f"{name}.rn.f32" for name in ("add", "sub", "mul", "div", "sqrt", "fma")}
"""Instructions on float32 that round once."""
_CONVERSION = re.compile(r"cvt\.(?:rn|rz|rzi|rni|rmi|rpi)\.[a-z]+\d+\.[a-z]+\d+|cvt\.f64\.f32")
"""Conversions with a rounding of their own, or none, as float32 to float64 has."""


def float_instructions(ptx: str) -> Counter[str]:
    """Count each instruction on floats, but for moves of words."""
    found = Counter(match[1] for match in _INSTRUCTION.finditer(ptx) if FLOATS & set(match[1].split(".")))
    return Counter({name: count for name, count in found.items() if name.split(".")[0] not in MEMORY})


def faults(ptx: str) -> Iterator[str]:
    """Yield each instruction that may round in another way than the C says, with its number."""
    for name, count in sorted(float_instructions(ptx).items()):
        first = name.split(".")[0]
        flushes = any(part in name.split(".") for part in ("ftz", "approx", "full", "sat"))
        known = name in ALLOWED or first in EXACT or _CONVERSION.fullmatch(name) is not None
        if flushes or not known:
            yield f"{name} ({count})"


def check(ptx: str) -> None:
    """Raise ToolFailed where the compiler chose an instruction that gives other bits."""
    found = list(faults(ptx))
    if found:
        facts = [("instructions", ", ".join(found)), ("allowed", ", ".join(sorted(ALLOWED)))]
        hint = "a compiler that takes the flags of rack.toml, such as clang 14"
        raise ToolFailed("the compiler's device code does not round as the library needs", facts, hint)
