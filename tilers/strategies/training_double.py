"""Double buffering from which operators or nodes can be opted out by name."""

from deployer.core.plan import Buffering, Options, Step
from deployer.tilers.strategies.strategy import Strategy, register


@register
class TrainingDouble(Strategy):
    """Double, but single for operators and nodes named in `opt_out`."""

    name = "training_double"

    def modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Single where the operator or the node is opted out."""
        opted_out = step.node.op in options.opt_out or step.name in options.opt_out
        return ("single",) if opted_out else ("double",)
