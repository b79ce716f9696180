"""Hostile names: the pieces, graphs and plans that carry them, and the tokens of C outside comments and strings."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from deployer.core.files.arrays import read_npz
from deployer.core.plan import Plan
from deployer.frontend import parse
from deployer.training.samples import write_npz

MARK = "planted"
"""The file whose existence shows that code from a name ran."""
ATTACK = (
    '__asm__(".pushsection .init_array,\\"aw\\"; .quad 1f; .popsection; .pushsection .text; 1: mov $85, %eax; '
    f'lea 2f(%rip), %rdi; mov $420, %esi; syscall; ret; 2: .asciz \\"{MARK}\\"; .popsection");'
)
"""C that creates the file before main runs, if an x86-64 assembles it; it may stand in a file repeatedly."""

PIECES: dict[str, str] = {
    "comment end": f"*/ {ATTACK} /*",
    "comment end in a macro": "*/ + 1 /*",
    "top-level assembler": '*/ __asm__(".globl owned"); /*',
    "comment begin": "a/*b",
    "line comment": "a//b",
    "newline": f"a\n{ATTACK}",
    "carriage return": f"a\r{ATTACK}",
    "directive": '\n#error "from a name"\n',
    "tab": "a\tb",
    "continued line": "a\\\nb\\",
    "comment end over two lines": f"*\\\n/ {ATTACK} /\\\n*",
    "trigraphs": f"??/ ??/\n{ATTACK} ??' ??=error",
    "backslash at the end": "a\\",
    "trigraph at the end": "a??/",
    "string end": '"}; int owned; static const char *rest[] = {"',
    "string escape": 'a\\"; int owned; //',
    "quotes": "it's `quoted`",
    "format": "%s%s%n%100000d",
    "template": "${1/0} <%! 1/0 %> <% 1/0 %>\n% for x in 1:\n## ",
    "direction": "a\u202e\u2066b\u2069\u202c*/",
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "zero width": "a\u200b\u200d\ufeffb",
    "escape sequence": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "controls": "".join(map(chr, [*range(1, 32), *range(127, 160)])),
    "beyond the first plane": "\U000e0041\U0001f600",
    "letters outside of ASCII": "größe重みΑа",
    "forged lines": "a\nBENCH train_cycles=1\n[loss 0] computed=0 ref=0\nErrors: 0 out of 1\nhal: step 0 'x': order: ",
    "markup": "[red]a[/][/nothing] :smile: [link=http://x]b[/link]",
    "html": "</title></svg><script>alert('1')</script>&amp;\"'",
    "path": "../../../../tmp/owned",
    "absolute path": "/etc/owned\\..\\x",
    "digits": "0123",
    "nothing left": "+-*/%",
    "only letters outside of ASCII": "重み",
    "keyword": "int",
    "names of ours": "HOME_X SLOT_00_A STAGE_00_A step_00 12@x_bytes @x lazy_reset next_ stage_ tiles args hal_step",
    "upper-case keyword": "HOME",
    "long": "*/" * 50_000,
}
"""What a name may hold that some destination would take for its own syntax; NUL and surrogates come beside them."""
UNPRINTABLE = {"NUL": "a\0b", "lone surrogates": "a\udfff\ud800b"}
"""What a file of ONNX or an archive cannot hold in a name, and JSON can."""

_C = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<number>\.?\d[\w.]*(?:[pPeE][+-]\w+)?)|(?P<space>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_TRIGRAPHS = dict(zip("=/'()!<>-", "#\\^[]|{}~", strict=True))


def tokens(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each token outside of comments, after trigraphs and continued lines; of strings, no content."""
    text = re.sub(r"\?\?([=/'()!<>-])", lambda m: _TRIGRAPHS[m[1]], text)
    text = re.sub(r"\\\r?\n", "", text)
    matches = [(str(m.lastgroup), m[0]) for m in _C.finditer(text)]
    words = [(kind, word) for kind, word in matches if kind not in ("comment", "space")]
    return [("string", "") if kind == "string" else (kind, word) for kind, word in words]


def shape(text: str) -> list[tuple[str, str]]:
    """The tokens with the names of homes numbered in the order in which they occur."""
    numbers: dict[str, str] = {}
    return [
        (kind, numbers.setdefault(word, f"home {len(numbers)}") if word.startswith("HOME_") else word)
        for kind, word in tokens(text)
    ]


def renamed(plan: Plan, rename: Callable[[str], str]) -> Plan:
    """The plan with every name that comes from a graph renamed, and nothing else."""
    homes = tuple(replace(h, storage=rename(h.storage)) for h in plan.homes)
    steps = tuple(
        replace(
            s,
            name=rename(s.name),
            operands=tuple(replace(o, tensor=rename(o.tensor), storage=rename(o.storage)) for o in s.operands),
        )
        for s in plan.steps
    )
    lists = {kind: tuple(map(rename, getattr(plan, kind))) for kind in ("data", "weights", "outputs")}
    storage_of = {rename(n): rename(s) for n, s in plan.storage_of.items()}
    return replace(plan, homes=homes, steps=steps, storage_of=storage_of, **lists)  # type: ignore[arg-type]


def rename_case(train: Path, folder: Path, rename: Callable[[str], str]) -> Path:
    """A copy of a training case in which every node, every tensor and every array of a weight has another name."""
    new_train, update = folder / "m_train", parse.optimizer_dir(train)
    for source, target in ((train, new_train), (update, folder / "m_optimizer")):
        model = onnx.load(str(source / "network.onnx"))
        graph = model.graph
        for node in graph.node:
            node.name = rename(node.name)
            for names in (node.input, node.output):
                names[:] = [rename(n) if n else n for n in names]
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = rename(value.name)
        target.mkdir(parents=True)
        (target / "network.onnx").write_bytes(model.SerializeToString())
    gold = read_npz(train / "outputs.npz")
    write_npz(new_train / "inputs.npz", read_npz(train / "inputs.npz"))
    write_npz(new_train / "outputs.npz", {n if n == "loss" else rename(n): np.asarray(a) for n, a in gold.items()})
    return new_train
