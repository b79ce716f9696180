"""Single buffering: one slot per operand, so that transfers and kernels take turns."""

from deployer.core.plan import Buffering, Options, Step
from deployer.tilers.strategies.strategy import Strategy, register


@register
class Single(Strategy):
    """Every step single-buffered."""

    name = "single"

    def modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Single alone."""
        return ("single",)
