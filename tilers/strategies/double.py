"""Double buffering: two slots per reloaded operand, so that transfers of the next tile run during a kernel."""

from deployer.core.plan import Buffering, Options, Step
from deployer.tilers.strategies.strategy import Strategy, register


@register
class Double(Strategy):
    """Every step of more than one tile double-buffered."""

    name = "double"

    def modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Double alone."""
        return ("double",)
