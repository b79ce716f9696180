"""ReduceMean: the mean over some axes."""

from deployer.operator import register
from deployer.reduction import Reduction


@register
class ReduceMean(Reduction):
    """The sum in row-major order over the number of elements."""

    name = "ReduceMean"
    mean = True
