"""Code of Siracusa's kernels: how loops are found in machine code, and that no kernel outgrows the caches."""

from dataclasses import replace
from pathlib import Path

import pytest

from deployer.core.operator import registry
from DeployTest.benchmarks.cluster import kernel_code
from DeployTest.support.kernels.machine_code import Code, read_code
from DeployTest.targets.simulators import needs_compiler

pytestmark = [pytest.mark.siracusa, pytest.mark.kernels]
COUNTED = ("addi a0,a0,-1", "addi a1,a1,4", "bnez a0,{0} <top>", "ret")
NESTED = (
    "addi a2,a0,0",
    "addi a1,a1,4",
    "addi a2,a2,-1",
    "bnez a2,{1} <in>",
    "addi a0,a0,-1",
    "bnez a0,{0} <out>",
    "ret",
)
SETUP = f"{4 << 20 | 4 << 12 | 0x7B:08x}"
"""lp.setup, whose last instruction lies eight bytes from it."""


def listing(**functions: tuple[str, ...]) -> tuple[str, str]:
    """Symbols and disassembly as objdump prints them: `{n}` is the address of line n, `call NAME` has a relocation.

    All instructions have four bytes, a call eight; a line of eight hexadecimal digits is a word that has no name.
    """
    symbols, text, at = [], ["Disassembly of section .text:"], 0
    for name, lines in functions.items():
        sizes = [8 if line.startswith(("call", "tail")) else 4 for line in lines]
        places = [f"{at + sum(sizes[:i]):x}" for i in range(len(lines))]
        symbols.append(f"{at:08x} g     F .text\t{sum(sizes):08x} {name}")
        for line, place in zip(lines, places, strict=True):
            first, *rest = line.format(*places).split(maxsplit=1)
            if first in ("call", "tail"):
                last = {"call": "jalr ra", "tail": "jr t1"}[first]
                text += [f" {place}:\t00000097          \tauipc\tra,0x0", f"\t\t\t{place}: R_RISCV_CALL_PLT\t{rest[0]}"]
                text.append(f" {int(place, 16) + 4:x}:\t000080e7          \t{last}")
            elif len(first) == 8 and not rest:
                text.append(f" {place}:\t{first}          \t.4byte\t0x{first}")
            else:
                text.append(f" {place}:\t00000013          \t{first}\t{' '.join(rest)}")
        at += sum(sizes)
    return "\n".join(symbols), "\n".join(text)


@pytest.mark.parametrize(
    ("functions", "block", "place"),
    [
        ({"f": COUNTED}, 12, "f"),
        ({"f": NESTED}, 12, "f"),
        ({"f": ("addi a0,a0,0", "ret")}, 0, ""),
        ({"f": (SETUP, "flw ft0,0(a0)", "flw ft1,4(a0)", "ret")}, 8, "f"),
        ({"f": ("j {2} <in>", "addi a0,a0,1", "addi a0,a0,2", "bnez a0,{1} <top>", "ret")}, 12, "f"),
        (
            {"f": ("addi a0,a0,1", "beqz a0,{5} <rare>", "addi a0,a0,2", "bnez a0,{0} <top>", "ret", "j {2} <back>")},
            20,
            "f",
        ),
        ({"f": ("call g", "bnez a0,{0} <top>", "ret"), "g": ("addi a0,a0,-1", "tail h"), "h": ("ret",)}, 28, "f"),
        ({"f": ("call g", "bnez a0,{0} <top>", "ret"), "g": COUNTED}, 12, "g"),
        ({"f": ("call g", "bnez a0,{0} <top>", "ret"), "g": ("call h", "ret"), "h": COUNTED}, 12, "h"),
    ],
    ids=[
        "counted",
        "nested",
        "none",
        "hardware",
        "entered inside",
        "rare part",
        "calls",
        "calls a loop",
        "calls twice",
    ],
)
def test_innermost_loops(functions: dict[str, tuple[str, ...]], block: int, place: str) -> None:
    """The bytes of the largest loop without a loop inside, with what it calls."""
    code = read_code(*listing(**functions))
    assert (code.block, code.place) == (block, place)
    sizes = [8 if line.startswith(("call", "tail")) else 4 for lines in functions.values() for line in lines]
    assert code.bytes == sum(sizes)


def test_code_behind_functions() -> None:
    """Assembly code behind the functions of a section counts, and padding behind it does not."""
    symbols, text = listing(f=COUNTED, behind=("flw ft0,0(a0)", "nop", "j {0} <f>", "nop"))
    alone = "\n".join(line for line in symbols.splitlines() if not line.endswith("behind"))
    assert read_code(alone, text).bytes == 4 * (len(COUNTED) + 2)


def test_jump_by_a_table() -> None:
    """Code whose way is not in the disassembly is refused, not measured as something else."""
    with pytest.raises(ValueError, match="by a table"):
        read_code(*listing(f=("lw a5,0(a5)", "jr a5")))


def test_list_of_larger_kernels() -> None:
    """Each has a reason and is a kernel; growth and entries without need are faults that say both numbers."""
    limits = kernel_code.allowed()
    symbols = {op.kernel.symbol for op in registry().values() if op.kernel}
    assert set(limits.larger) <= symbols | kernel_code.own_functions()
    for entry in limits.larger.values():
        assert entry["reason"]
        assert set(entry) & {"code", "block"}
        assert entry.get("code", limits.code + 1) > limits.code
        assert entry.get("block", limits.block + 1) > limits.block
    kept = Code(limits.code + 2, limits.block + 2, "f")
    listed = replace(limits, larger={"large": {"reason": "several ways", "code": kept.bytes, "block": kept.block}})
    assert listed.faults({"large": kept}) == []
    for part, most in (("bytes", kept.bytes), ("block", kept.block)):
        [fault] = listed.faults({"large": replace(kept, **{part: most + 1})})
        assert f"{most + 1} B, at most {most} B" in fault
    assert "need not be listed" in listed.faults({"large": replace(kept, bytes=1)})[0]
    assert limits.faults({"other": Code(limits.code, limits.block, "f")}) == []
    assert len(limits.faults({"other": Code(limits.code + 1, limits.block + 1, "f")})) == 2


@pytest.mark.slow
def test_no_kernel_outgrows_the_caches(tmp_path: Path) -> None:
    """Every kernel keeps within 4 KB and its loops within 512 bytes, or within what is listed."""
    needs_compiler(kernel_code.TARGET)
    limits, version = kernel_code.allowed(), kernel_code.compiler_version()
    if version != limits.compiler:
        pytest.skip(f"sizes are those of {limits.compiler}, this is {version}")
    assert limits.faults(kernel_code.codes(tmp_path)) == []
