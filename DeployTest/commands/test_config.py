"""Options from a TOML file: what it may hold, and that the command line overrules it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deployer.commands.parser import given_settings, parsed
from DeployTest.support.building.command_line import deployer

Write = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Write a file of options."""

    def write(text: str) -> Path:
        path = tmp_path / "options.toml"
        path.write_text(text)
        return path

    return write


def test_as_on_the_command_line(written: Write) -> None:
    """Numbers, texts, lists and switches mean what the same options mean; those of other commands are not read."""
    path = written(
        '[fit]\nloss = "cross_entropy"\nlr = 0.25\nepochs = 3\n'
        'param-group = ["a:lr=1", "b:frozen"]\nno-shuffle = true\n'
        "any-rate = false\nmax-grad-norm = -1.5\n[train]\nepochs = 9\n"
    )
    a = parsed(["fit", "m.onnx", "--data", "d.npz", "-o", "run", "--config", str(path)])
    words = ["fit", "m.onnx", "--data", "d.npz", "-o", "run", "--loss=cross_entropy", "--lr=0.25", "--epochs=3"]
    b = parsed([*words, "--param-group=a:lr=1", "--param-group=b:frozen", "--no-shuffle", "--max-grad-norm=-1.5"])
    names = vars(b).keys() - {"config", "given", "command_line"}
    assert {name: getattr(a, name) for name in names} == {name: getattr(b, name) for name in names}
    assert a.given - b.given == {"config"}


def test_betas(written: Write) -> None:
    """Both decay rates in one option are those of their own options, also in a file."""
    first = ["fit", "m.onnx", "--data", "d.npz", "-o", "run", "--loss=cross_entropy"]
    apart = given_settings(parsed([*first, "--beta1", "0.8", "--beta2", "0.95"]))
    assert apart == {"beta1": 0.8, "beta2": 0.95}
    assert given_settings(parsed([*first, "--betas", "0.8,0.95"])) == apart
    assert given_settings(parsed([*first, "--config", str(written('[fit]\nbetas = "0.8,0.95"\n'))])) == apart
    with pytest.raises(SystemExit):
        parsed([*first, "--betas", "0.8"])


def test_overruled(written: Write) -> None:
    """The command line has the last word, wherever --config stands."""
    path = written('[train]\nl1 = "64k"\nbuffering = "double"\n')
    for words in (["--config", str(path), "--l1", "32000"], ["--l1", "32000", f"--config={path}"]):
        a = parsed(["train", "-t", "case", *words])
        assert (a.l1, a.buffering) == (32000, "double")


def test_overruled_values(written: Write) -> None:
    """Of an option that may be repeated all values go, of options that exclude each other the file's."""
    path = written('[compile]\nbudget = ["L1=1", "L2=2"]\nopt-out = ["Gemm"]\nsinglebuffer = true\nquiet = true\n')
    a = parsed(["compile", "-t", "case", "--config", str(path), "--budget=L1=3", "--doublebuffer", "--json"])
    assert (a.budget, a.opt_out, a.buffering) == ([("L1", 3)], ["Gemm"], "double")
    assert (a.json, a.quiet) == (True, False)


def test_shortened(written: Write) -> None:
    """Words that the command line takes in a shorter form are not overlooked."""
    path = written('[train]\nl1 = "64k"\nbuffering = "double"\n')
    a = parsed(["train", "-t", "case", "--conf", str(path), "--buf=single"])
    assert (a.l1, a.buffering) == (64000, "single")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[fit]\nloss = 'mse'\n[tain]\n", ["[tain] is not a command", "did you mean train?"]),
        ("[train]\nlearning_rate = 1\n", ["[train] learning_rate is not an option", "did you mean learning-rate?"]),
        ("[train]\nconfig = 'x'\n", ["config is not an option that a file may have"]),
        ("[train]\nl1 = true\n", ["l1 is not a text, a number, or a list of these"]),
        ("[train]\nfused = 1\n", ["fused is not true or false"]),
        ("[train]\nbudget = [['L1=1']]\n", ["budget is not a text, a number"]),
        ("l1 = 3\n", ["l1 is outside of a table", "[fit]"]),
        ("[train\n", ["is not TOML", "cause"]),
        ("[train]\nl1 = 'much'\n", ["'much' is not a whole number"]),
        (f"# {'x' * (1 << 20)}\n", ["is too large", "1048576 B"]),
        ("x = " + "[" * 20000, ["TOML"]),
    ],
)
def test_refused(text: str, said: list[str], written: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else ends with 2, and names file and key."""
    assert deployer("train", "-t", "case", "--config", written(text)) == 2
    found = capsys.readouterr().err
    assert all(words in found for words in said), found


def test_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is named."""
    assert deployer("targets", "--config", tmp_path / "no.toml") == 2
    assert "no.toml does not exist" in capsys.readouterr().err
