"""Flags that only some compilers take, and the proof at each start that this machine rounds a fused product once."""

import re
import shlex
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from deployer.core import target
from deployer.core.errors import ToolFailed
from deployer.running import build
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import bits, deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.kernels]

FLAG = "-mfma"
OTHER_MACHINE = f"""#!/bin/sh
for word in "$@"; do
    case "$word" in {FLAG}) echo "cc: error: unrecognized command-line option '$word'" >&2; exit 1;; esac
done
exec gcc "$@"
"""
"""gcc as it is on other processors: it does not know the flag, and what is built asks the library for fmaf."""


def compiler(folder: Path, text: str) -> Path:
    """A compiler that is a script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "cc"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compiler of another machine as the user's choice."""
    path = compiler(tmp_path / "bin", OTHER_MACHINE)
    monkeypatch.setenv("CC", str(path))
    return path


def flags() -> tuple[str, ...]:
    """The host's flags under the compiler that is chosen now."""
    return build.flags_of(build.toolchain(target.load("host")))


def test_flag_where_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag is used if and only if the compiler accepts it; a replaced compiler is tested again."""
    tools = build.toolchain(target.load("host"))
    assert FLAG in tools.optional
    assert FLAG not in tools.flags
    probe = subprocess.run(["gcc", FLAG, "-E", "-x", "c", "/dev/null"], capture_output=True, check=False)
    monkeypatch.delenv("CC", raising=False)
    assert (FLAG in flags()) == (probe.returncode == 0)
    monkeypatch.setenv("CC", str(compiler(tmp_path, OTHER_MACHINE)))
    assert flags() == tools.flags
    compiler(tmp_path, '#!/bin/sh\nexec gcc "$@"\n# another\n')
    assert (FLAG in flags()) == (probe.returncode == 0)


def test_compiler_that_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that crashes during the test of the flag is an error, not a refusal of the flag."""
    text = f'#!/bin/sh\ncase " $* " in *" {FLAG} "*) kill -9 $$;; esac\nexec gcc "$@"\n'
    monkeypatch.setenv("CC", str(compiler(tmp_path, text)))
    with pytest.raises(ToolFailed, match=f"asking .* for {FLAG} failed.*signal 9"):
        flags()


@pytest.mark.slow
def test_same_bits_without_the_flag(
    models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Path
) -> None:
    """The library's fmaf and the processor's; and neither program gets the objects of the other."""
    case, words = case_dir("simple_mlp", models_root), ["--l1", "4000"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, command in (("other", str(other)), ("own", ""), ("again", str(other))):
        monkeypatch.setenv("CC", command)
        folder = tmp_path / name
        assert deployer("train", "-t", case, "-o", folder, *words, "--dump", tmp_path / f"{name}.npz") == 0
        disassembled = subprocess.run(["objdump", "-d", folder / "network"], capture_output=True, text=True, check=True)
        assert ("vfmadd" in disassembled.stdout) == (FLAG in flags())
    assert bits(tmp_path / "other.npz") == bits(tmp_path / "own.npz") == bits(tmp_path / "again.npz")


INEXACT = {
    "two roundings": "-D__builtin_fmaf(a,b,c)=((a)*(b)+(c))",
    "the sum in double": "-D__builtin_fmaf(a,b,c)=((float)((double)(a)*(b)+(c)))",
    "small numbers are zero": "-ffast-math",
    "a processor without it": "-D__builtin_cpu_supports(name)=0",
}


@pytest.mark.parametrize(
    "word",
    [pytest.param(w, id=n, marks=[] if n == "two roundings" else pytest.mark.slow) for n, w in INEXACT.items()],
)
def test_unfit_machine(
    word: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build that rounds otherwise ends before its first pass, with what was computed and a way out."""
    if "cpu_supports" in word and FLAG not in flags():
        pytest.skip("this compiler does not take the flag")
    monkeypatch.setenv("CC", f"gcc {shlex.quote(word)}")
    case = case_dir("simple_mlp", models_root)
    message = refused(capsys, "train", "-t", case, "-o", tmp_path / "c", "--l1", "4000")
    assert "ToolFailed" in message
    assert "does not compute on this machine as kernels need" in message
    assert "another compiler in CC" in message
    assert ("hal: fmaf of" in message) != ("which this processor does not have" in message)
    assert not (tmp_path / "c" / "output.bin").exists()


NUMBER = r"(-?[\w.]+[-+]?\w*(?: \* [\w.]+[-+]?\w*)?)"
ROW = re.compile(rf"\{{{NUMBER}, {NUMBER}, {NUMBER}, {NUMBER}\}}")


def number(text: str) -> Fraction:
    """A float of C, or a product of two, which is exact."""
    value = Fraction(1)
    for factor in text.split(" * "):
        digits = factor.removesuffix("f")
        value *= Fraction(float.fromhex(digits) if "x" in digits else float(digits))
    assert Fraction(float(np.float32(float(value)))) == value, text
    return value


def rounded(value: Fraction) -> Fraction:
    """The nearest float32, the even one of two."""
    size, unit = abs(value), Fraction(1, 2**149)
    while size / unit >= 2**24:
        unit *= 2
    return (round(size / unit) * unit) * (-1 if value < 0 else 1)


def test_cases_of_the_proof() -> None:
    """The simulator's expected values are exact; some rows differ under each kind of double rounding."""
    rows = ROW.findall((target.TARGETS_DIR / "common" / "include" / "exact_f32.h").read_text())
    assert len(rows) == 9
    differences = [0, 0, 0]
    for texts in rows:
        x, y, z, expected = map(number, texts)
        assert rounded(x * y + z) == expected, texts
        if abs(x * y) < 2**128:
            differences[0] += rounded(rounded(x * y) + z) != expected
        differences[1] += rounded(Fraction(float(x * y + z))) != expected
        differences[2] += abs(expected) < Fraction(1, 2**126)
    assert min(differences) >= 2, differences
