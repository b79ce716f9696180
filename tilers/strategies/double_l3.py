"""Double buffering of operands from the outermost level alone."""

from deployer.core.plan import Buffering, Options, Step
from deployer.tilers.strategies.strategy import Strategy, register


@register
class DoubleL3(Strategy):
    """One slot per operand in the inner level, two in the middle level: the outer hop is the slow one."""

    name = "double_l3"

    def modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Single."""
        return ("single",)

    def stage_modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Double."""
        return ("double",)
