"""A strategy that leaves the buffering of each step to the cost model."""

from deployer.core.plan import Buffering, Options, Step
from deployer.tilers.strategies.strategy import Strategy, register


@register
class Auto(Strategy):
    """Single or double, whichever the model makes cheaper, and never worse than either throughout."""

    name = "auto"
    alternatives = ("single", "double")

    def modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Both."""
        return ("single", "double")
