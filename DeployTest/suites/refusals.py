"""Why tests are refused, in few groups: a table that is read in two minutes."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

OTHER = "other forms"
GROUPS: Sequence[tuple[str, str, str]] = (
    (
        "types",
        r"has element type",
        "element types that no target supports: text, bfloat16, 8-bit floats, all of 4 bits and fewer",
    ),
    ("no tensors", r"values that are not tensors|optional_type", "sequences, optional values, maps"),
    ("folded", r"its result is folded", "shapes and constants determine the result, so no C computes it"),
    ("empty", r"at least one element|has no elements|takes nothing|takes no turn", "tensors without elements"),
    (
        "shapes",
        r"the shape of its result depends",
        "the shape of the result depends on values; tensors have fixed addresses",
    ),
    ("quantized", r"quantized|casts to|scales are those of blocks", "parts of quantized models; numbers are float32"),
    ("wide integers", r"may be beyond int32", "sums and products of int64, uint32, uint64; targets compute int32"),
    (
        "integers",
        r"integer operands|operands are int32|values are integers|is int32|differ in dtype",
        "integers at run time in operators that compute or move float32 here; as constants they are folded",
    ),
    ("random", r"draws numbers|at random", "random numbers; Dropout in training has a seed and is supported"),
    ("absent", r"there is no such operator|function body|has no body", "operators that are not supported"),
)
"""Name, what the reasons have in common, and what that means; the first that fits."""


def group_of(reason: str) -> str:
    """The group's name; OTHER where a form of an operator is refused for a reason of its own."""
    return next((name for name, pattern, _ in GROUPS if re.search(pattern, reason)), OTHER)


def table(refused: Iterable[tuple[str, str]]) -> list[str]:
    """Lines in Markdown about operators and reasons of tests: a row per group, the largest first, then single forms."""
    pairs = list(refused)
    meaning = {name: text for name, _, text in GROUPS} | {OTHER: "a form of an operator; the list below names each"}
    sizes = Counter(group_of(reason) for _, reason in pairs)
    lines = ["| refused | tests | what it is | operators |", "|---|---:|---|---|"]
    for name, size in sorted(sizes.items(), key=lambda item: (item[0] == OTHER, -item[1], item[0])):
        found = Counter(op for op, reason in pairs if group_of(reason) == name)
        shown = ", ".join(f"{op} {n}" if n > 1 else op for op, n in sorted(found.items()))
        lines.append(f"| {name} | {size} | {meaning[name]} | {shown} |")
    single = Counter((op, reason) for op, reason in pairs if group_of(reason) == OTHER)
    lines += ["", "| other form of | tests | refused because |", "|---|---:|---|"]
    for (op, reason), size in sorted(single.items()):
        text = re.sub(r"^node \(\w+\): ", "", reason).replace("|", "/")
        lines.append(f"| {op} | {size} | {text} |")
    return lines
