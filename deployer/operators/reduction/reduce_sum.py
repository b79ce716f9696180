"""ReduceSum: the sum over some axes."""

from deployer.core.forms import LATE_AXES
from deployer.core.operator import register
from deployer.operators.reduction.reduction import Reduction


@register
class ReduceSum(Reduction):
    """Sums in row-major order."""

    name = "ReduceSum"
    overflow = "any"
    versions = (1, 11, 13)
    extras = (LATE_AXES,)
