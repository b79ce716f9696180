"""No code from a name: hostile names in every place of every template and report, and nothing of them is ever run."""

import re
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from cases import Built, case_dir, compile_case, load_case, result_hash
from hostile_names import ATTACK, MARK, PIECES, rename_case, renamed, shape, tokens

from deployer import pipeline
from deployer.plan import Plan
from deployer.stages import generate

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def innocent(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A program with shared functions, tiles and, since L2 is small, stages of tensors in L3."""
    case = load_case("autoencoder", models_root)
    return compile_case(case, tmp_path_factory.mktemp("innocent"), "double", 8000, l2=60000, outermost="L3")


def test_lexer_sees_what_is_hidden() -> None:
    """The test's own eyes: trigraphs, continued lines, quotes and comments as a compiler reads them."""
    assert tokens('/* a */ int b; "/*" // c') == [("word", "int"), ("word", "b"), ("other", ";"), ("string", "")]
    assert ("word", "owned") in tokens("/* *\\\n/ owned /* */")
    assert ("word", "owned") in tokens("/* *??/\n/ owned /* */")
    assert ("word", "owned") not in tokens("/* * / owned /* */")


def in_every_place(plan: Plan, form: Callable[[int], str]) -> Plan:
    """The plan with a name made of its number in the place of each."""
    known: dict[str, str] = {}
    return renamed(plan, lambda name: known.setdefault(name, form(len(known))))


UNPRINTABLE = {"NUL": "a\0b", "lone surrogates": "a\ud800\udfffb"}
FORMS: dict[str, Callable[[str, int], str]] = {
    "behind a name": lambda piece, n: f"n{n}{piece}",
    "before a name": lambda piece, n: f"{piece}{n}",
    "all reduce to one identifier": lambda piece, n: piece + "*" * n,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("piece", PIECES | UNPRINTABLE)
def test_tokens(piece: str, form: str, innocent: Built) -> None:
    """With the piece in every name, the C has the tokens that it has with innocent names, in plain ASCII."""
    text_of = (PIECES | UNPRINTABLE)[piece]
    plan = in_every_place(innocent.plan, lambda n: FORMS[form](text_of, n))
    wanted, files = generate.run(innocent.plan), generate.run(plan)
    assert set(files) == set(wanted)
    for name, text in files.items():
        assert shape(text) == shape(wanted[name]), f"{name}: tokens differ"
        assert re.fullmatch(r"[ -~\n]*", text), f"{name}: characters that nobody sees"


@pytest.mark.parametrize("piece", ["comment end", "newline", "trigraphs", "string end", "comment end over two lines"])
def test_attack_does_not_run(piece: str, models_root: Path, tmp_path: Path) -> None:
    """A case whose names hold code builds without a warning, runs to the bits of the innocent one, and no more."""
    train = case_dir("simple_mlp", models_root)
    folder = rename_case(train, tmp_path / "case", lambda n: f"{n}{PIECES[piece]}")
    built = compile_case(pipeline.load_training(folder), tmp_path / "c", "double", 2000)
    outcome = built.run()
    wanted = compile_case(load_case("simple_mlp", models_root), tmp_path / "w", "double", 2000).run()
    assert result_hash(outcome) == result_hash(wanted)
    assert not list(tmp_path.rglob(MARK))
    assert ATTACK.split("(")[0] not in outcome.text


def test_nothing_runs_before_main(models_root: Path, tmp_path: Path) -> None:
    """The name of one node ends its comment and brings assembler; that is text and is not assembled."""
    train = case_dir("simple_mlp", models_root)
    names = {n.name for n in onnx.load(str(train / "network.onnx")).graph.node}
    folder = rename_case(train, tmp_path / "case", lambda n: f"{n}*/ {ATTACK} /*" if n in names else n)
    built = compile_case(pipeline.load_training(folder), tmp_path / "c", "double", 2000)
    built.run()
    assert not (tmp_path / "c" / MARK).exists(), "code from a name was run"
