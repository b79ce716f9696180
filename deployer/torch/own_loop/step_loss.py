"""The loss of a pass: a number that also answers to what loops of PyTorch call on their losses."""

from typing import NoReturn

from deployer.core.errors import OptionProblem


class StepLoss(float):
    """A float; `item()` and `detach()` are for loops that were written for tensors."""

    __slots__ = ()

    def item(self) -> float:
        """The number."""
        return float(self)

    def detach(self) -> "StepLoss":
        """The number, of which nothing is differentiated."""
        return self

    def cpu(self) -> "StepLoss":
        """The number, which lies in this machine's memory."""
        return self

    def backward(self) -> NoReturn:
        """Raise OptionProblem: the pass has been made."""
        hint = "leave out loss.backward(), optimizer.step() and clipping: max_grad_norm=... of compile_step clips"
        raise OptionProblem("the step has made the backward pass, and the update where one is due", hint=hint)
