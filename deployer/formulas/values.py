"""Formulas in numpy, in the type of the operands: float32 as the kernels round, float64 as the meaning."""

from collections.abc import Mapping

import numpy as np

from deployer.core.operator import Array
from deployer.formulas.functions import FUNCTIONS
from deployer.formulas.tree import Attr, Call, Formula, Input, Number, walk


def evaluate(formula: Formula, inputs: Mapping[str, Array], settings: Mapping[str, float]) -> Array:
    """The value of a formula: numbers in the type of the first input that is one, integers in theirs, truths as int32.

    An attribute of a file is the float32 that the kernel gets; that of a captured step is the module's own number.
    """
    reals = [inputs[x.name] for x in walk(formula) if isinstance(x, Input) and x.kind == "real"]
    dtype = reals[0].dtype if reals else np.dtype(np.float32)
    found: dict[Formula, Array] = {}
    with np.errstate(all="ignore"):
        for part in walk(formula):
            match part:
                case Number(value):
                    found[part] = np.asarray(value, dtype)
                case Attr(name):
                    found[part] = np.asarray(settings[name], dtype)
                case Input(name):
                    found[part] = inputs[name] != 0 if part.kind == "truth" else inputs[name]
                case Call(function, operands):
                    found[part] = np.asarray(FUNCTIONS[function].numpy(*(found[x] for x in operands)))
    if formula.kind == "whole":
        return found[formula]
    return np.asarray(found[formula], dtype if formula.kind == "real" else np.int32)
