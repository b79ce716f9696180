"""Errors and warnings with a place, a cause, numbers and a remedy; faults of user and compiler are different types."""

import re
import warnings
from collections.abc import Callable, Sequence

from deployer.core.safe_text import escaped, shortened

SCREEN = 3600
"""Characters of a message, beyond which its longest lines lose their middle."""
LABEL = 100
"""Most characters of a fact's label, which may be a name."""
ORDINARY_LINE = 200
"""Characters of a line that is never shortened."""


MOST_FACTS = 30
"""Facts of one kind that a message lists."""


def facts_of(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Facts with one label; beyond MOST_FACTS they are counted."""
    more = len(texts) - MOST_FACTS
    return [(label, text) for text in texts[:MOST_FACTS]] + ([("and", f"{more} more")] if more > 0 else [])


NUMBER = re.compile(r"(-?(?:0|[1-9]\d*)(\.\d+)?)(?: (B|s|ms|%|cycles))?")
"""A fact that is a number, with its unit."""
FACT = {
    "anyOf": [
        {"type": ["string", "number"]},
        {
            "type": "object",
            "properties": {"value": {"type": "number"}, "unit": {"type": "string"}},
            "required": ["value", "unit"],
            "additionalProperties": False,
        },
    ]
}
"""The JSON schema of a fact."""
FACTS = {"type": "object", "additionalProperties": {"anyOf": [FACT, {"type": "array", "items": FACT}]}}
"""The JSON schema of the facts of a message by their labels; those with one label are a list."""


def _fact(text: str) -> object:
    """A fact for other programs: a number is one, with its unit beside it if it has one; else the text."""
    found = NUMBER.fullmatch(text)
    if not found:
        return text
    value = float(found[1]) if found[2] else int(found[1])
    return {"value": value, "unit": found[3]} if found[3] else value


def one_of(*remedies: str) -> str:
    """A hint of several ways out, of which one suffices."""
    return ", or ".join(phrase for phrase in (", ".join(remedies[:-1]), remedies[-1]) if phrase)


class _Message(Exception):
    """A message to a person.

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

    @property
    def record(self) -> dict[str, object]:
        """The message for other programs, in JSON."""
        facts: dict[str, list[object]] = {}
        for label, text in self.facts:
            facts.setdefault(label, []).append(_fact(text))
        shown = {label: found if len(found) > 1 else found[0] for label, found in facts.items()}
        return {"cause": self.cause, "facts": shown, "hint": self.hint}

    def __str__(self) -> str:
        rows = [(shortened(escaped(label), LABEL), text) for label, text in self.facts]
        rows += [("try", self.hint)] if self.hint else []
        width = max([14, *(len(label) for label, _ in rows)])
        starts, lines = [f"{self.title}: "], [self.cause]
        for label, text in rows:
            starts.append(f"  {label:<{width}} ")
            lines += text.splitlines() or [""]
            starts += [" " * (width + 3)] * (len(lines) - len(starts))
        # a name holds no line break or terminal code once it is escaped
        lines = [escaped(line) for line in lines]
        longest = _longest(lines)
        return "\n".join(start + shortened(line, longest) for start, line in zip(starts, lines, strict=True))


def _longest(lines: Sequence[str]) -> int:
    """The most characters a line may have so that all together fit a screen, but no ordinary line is shortened."""
    left, lengths = SCREEN, sorted(map(len, lines))
    for place, length in enumerate(lengths):
        share = left // (len(lengths) - place)
        if length > share:
            return max(share, ORDINARY_LINE)
        left -= length
    return SCREEN


class DeployerError(_Message):
    """An error that can be shown to a person. Unless a subclass says otherwise it exits as an internal error does."""

    exit_code = 70


class DeployerWarning(_Message, UserWarning):
    """A harmless oddity of an input: the command reports it and continues."""

    title = "Warning"


Warn = Callable[[DeployerWarning], None]
"""The function that receives a warning."""


def python_warning(warning: DeployerWarning) -> None:
    """Report a warning through Python's `warnings`; callers use this by default."""
    warnings.warn(warning, stacklevel=2)


class UserError(DeployerError):
    """The user's files or options are wrong; the exit code is 2."""

    exit_code = 2


class InternalError(DeployerError):
    """The compiler broke one of its own rules; the exit code is 70."""

    exit_code = 70


class FileProblem(UserError):
    """A file is missing, truncated, or has another format than expected."""


def unreadable(path: object, error: OSError) -> FileProblem:
    """The error of a file that is there, and that the machine does not read."""
    cause = f"{path} cannot be read: {error.strerror or error}"
    return FileProblem(cause, hint="try again, or correct the path or its permissions")


class GraphProblem(UserError):
    """The graph is broken: producers, cycles, names, reachability."""


class UnsupportedOperator(UserError):
    """No operator implements a node, or none supports the node's attributes and types.

    `reason` is the cause without the node, where several nodes may have the same one.
    """

    def __init__(self, cause: str, facts: Sequence[tuple[str, str]] = (), hint: str = "", reason: str = "") -> None:
        super().__init__(cause, facts, hint)
        self.reason = reason


class ShapeMismatch(UserError):
    """The shapes or dtypes of a node's tensors are invalid for its operator."""


class DatasetMismatch(UserError):
    """Samples or expected values do not fit the model."""


class OptionProblem(UserError):
    """An option is invalid, or does not apply here."""


class TilingInfeasible(UserError):
    """A step, or a set of steps, cannot fit a memory level."""


class PlacementInfeasible(UserError):
    """Live buffers of a level cannot be packed into its capacity."""


class NotDifferentiable(UserError):
    """An operator between a trainable weight and the loss has no gradient."""


class CaptureMismatch(UserError):
    """A captured training step computes other values than PyTorch."""


class ToolMissing(UserError):
    """A compiler, simulator or package that the request needs is not installed."""


class ToolFailed(UserError):
    """A compiler or a simulator failed: a signal ended it, space ran out, or it is another program than expected."""


class MachineTooSmall(UserError):
    """The machine that is emulated has less memory than a program needs; boards with its core may have more."""


class MachineTooSlow(UserError):
    """A program did not end in time on the machine that is emulated, such as one with floats but no unit for them."""


class BuildFailed(InternalError):
    """The C compiler rejected generated code."""


class RunFailed(InternalError):
    """The generated program failed, or did not end."""


class VerifyFailed(InternalError):
    """An artefact breaks a rule; the message starts with the rule's name."""

    def __init__(self, rule: str, cause: str, facts: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(f"[{rule}] {cause}", facts)
        self.rule = rule
