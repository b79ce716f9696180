"""ReduceMean: the mean over some axes."""

from deployer.core.operator import register
from deployer.operators.reduction.reduction import Reduction


@register
class ReduceMean(Reduction):
    """The sum in row-major order over the number of elements."""

    name = "ReduceMean"
    versions = (1, 11, 13, 18)
    mean = True
