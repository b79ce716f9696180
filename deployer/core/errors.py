"""Errors and warnings with a place, a cause, numbers and a way out; the user's and our own are different types."""

import warnings
from collections.abc import Callable, Sequence

from deployer.core.safe_text import escaped

LONGEST_LINE = 4000
"""Characters of a line of a message; what lies beyond helps nobody."""


class _Message(Exception):
    """What is told to a person.

    `cause` says what is wrong and where in one line; `facts` are (label, text) lines with the numbers;
    `hint` says what to try.
    """

    def __init__(self, cause: str, facts: Sequence[tuple[str, str]] = (), hint: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.facts = tuple(facts)
        self.hint = hint

    @property
    def title(self) -> str:
        """The first word."""
        return type(self).__name__

    def __str__(self) -> str:
        rows = [*self.facts, *([("try", self.hint)] if self.hint else [])]
        width = max([14, *(len(label) for label, _ in rows)])
        lines = [f"{self.title}: {_shown(self.cause)}"]
        indent = "\n" + " " * (width + 3)
        lines += [f"  {_shown(label):<{width}} {indent.join(map(_shown, text.splitlines()))}" for label, text in rows]
        return "\n".join(lines)


def _shown(text: str) -> str:
    """One line of a message: names in it cannot begin another, nor command the terminal."""
    line = escaped(text)
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."


class DeployerError(_Message):
    """An error that can be shown to a person. Only a failed comparison ends with 1: one of no further kind is ours."""

    exit_code = 70


class DeployerWarning(_Message, UserWarning):
    """What is odd in an input and harmless: it is told, and the command goes on."""

    title = "Warning"

    @property
    def record(self) -> dict[str, object]:
        """The warning for a report in JSON."""
        return {"cause": self.cause, "facts": dict(self.facts), "hint": self.hint}


Warn = Callable[[DeployerWarning], None]
"""Who is told of a warning."""


def python_warning(warning: DeployerWarning) -> None:
    """The way of Python's own warnings, for callers that name no other."""
    warnings.warn(warning, stacklevel=2)


class UserError(DeployerError):
    """Something the user gave or asked for is wrong; the exit code is 2."""

    exit_code = 2


class InternalError(DeployerError):
    """The compiler broke one of its own rules; the exit code is 70."""

    exit_code = 70


class FileProblem(UserError):
    """A file is missing, truncated, or not what its name says."""


class GraphProblem(UserError):
    """The graph is broken: producers, cycles, names, reachability."""


class UnsupportedOperator(UserError):
    """No registered operator has the meaning of a node, or not in this form."""


class ShapeMismatch(UserError):
    """Shapes or dtypes of a node's tensors do not fit its meaning."""


class DatasetMismatch(UserError):
    """inputs.npz or outputs.npz does not fit the graph."""


class OptionProblem(UserError):
    """A command-line option has no meaning here."""


class TilingInfeasible(UserError):
    """A step, or a set of steps, cannot fit a memory level."""


class PlacementInfeasible(UserError):
    """Live buffers of a level cannot be packed into its capacity."""


class NotDifferentiable(UserError):
    """An operator on the way from the loss to a trainable weight has no gradient."""


class ToolMissing(UserError):
    """A compiler, simulator or package that the request needs is not installed."""


class ToolFailed(UserError):
    """A compiler, a simulator or the machine broke down: ended by a signal, out of space, or not what it is called."""


class BuildFailed(InternalError):
    """The C compiler refused generated code."""


class RunFailed(InternalError):
    """The generated program ended with an error or not at all."""


class VerifyFailed(InternalError):
    """An artefact breaks a rule; the message starts with the rule's name."""

    def __init__(self, rule: str, cause: str, facts: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(f"[{rule}] {cause}", facts)
        self.rule = rule
