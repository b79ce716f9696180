"""No code from a name: hostile names in every place of every template and report, and nothing of them is ever run."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.codegen import generate
from deployer.core import artefact
from deployer.core.errors import RunFailed, UserError
from deployer.core.plan import Plan
from deployer.reports.memory import memory_page
from DeployTest.commands.hostile_names import ATTACK, MARK, PIECES, UNPRINTABLE, rename_case, renamed, shape, tokens
from DeployTest.support.building.cases import Built, case_dir, compile_case, load_case
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
FORMS: dict[str, Callable[[str, int], str]] = {
    "behind a name": lambda piece, n: f"n{n}{piece}",
    "before a name": lambda piece, n: f"{piece}{n}",
    "all reduce to one identifier": lambda piece, n: piece + "*" * n,
}


@pytest.fixture(scope="module")
def innocent(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A program with all that is printed: a function that steps share, slots, and stages of tensors in L3."""
    case = load_case("simple_mlp", models_root)
    built = compile_case(case, tmp_path_factory.mktemp("innocent"), "double", 2000, l2=2600, outermost="L3")
    text = "".join(generate.generate_files(built.plan).values())
    assert all(part in text for part in ("_like(", "SLOT_", "STAGE_", "hal_sim_buffer_t"))
    return built


@pytest.fixture(scope="module")
def expected(innocent: Built) -> dict[str, list[tuple[str, str]]]:
    """The tokens of each file with innocent names."""
    return {name: shape(text) for name, text in generate.generate_files(innocent.plan).items()}


@pytest.fixture(scope="module", params=["behind a name", "before a name"])
def hostile(request: pytest.FixtureRequest, models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case in whose files every name holds another piece; names of members of an archive have an end."""
    form, pieces = FORMS[request.param], itertools.cycle(p for k, p in PIECES.items() if "long" not in k)
    names: dict[str, str] = {}
    folder = tmp_path_factory.mktemp("hostile")
    train = case_dir("simple_mlp", models_root)
    return rename_case(train, folder, lambda name: names.setdefault(name, form(next(pieces), len(names))))


def in_every_place(plan: Plan, form: Callable[[int], str]) -> Plan:
    """The plan with every name replaced by `form` of its number."""
    names: dict[str, str] = {}
    return renamed(plan, lambda name: names.setdefault(name, form(len(names))))


def test_lexer_sees_what_is_hidden() -> None:
    """The test's own eyes: trigraphs, continued lines, quotes and comments as a compiler reads them."""
    assert tokens('/* a */ int b; "/*" // c') == [("word", "int"), ("word", "b"), ("other", ";"), ("string", "")]
    assert ("word", "owned") in tokens("/* *\\\n/ owned /* */")
    assert ("word", "owned") in tokens("/* *??/\n/ owned /* */")
    assert ("word", "owned") not in tokens("/* * / owned /* */")


def check_tokens(plan: Plan, expected: dict[str, list[tuple[str, str]]]) -> None:
    """The C of a plan has the tokens that it has with innocent names, in plain ASCII."""
    files = generate.generate_files(plan)
    assert set(files) == set(expected)
    for name, text in files.items():
        assert shape(text) == expected[name], f"{name}: tokens differ"
        assert re.fullmatch(r"[ -~\n]*", text), f"{name}: characters that nobody sees"
        assert not re.search(r"^ \*.*\\$", text, re.MULTILINE), f"{name}: a line of a comment goes on"


@pytest.mark.parametrize("piece", PIECES | UNPRINTABLE)
def test_tokens(piece: str, innocent: Built, expected: dict[str, list[tuple[str, str]]]) -> None:
    """Every name ends in the piece of text; the tokens of the generated C stay the same."""
    text = (PIECES | UNPRINTABLE)[piece]
    check_tokens(in_every_place(innocent.plan, lambda n: f"n{n}{text}"), expected)


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, innocent: Built, expected: dict[str, list[tuple[str, str]]]) -> None:
    """All pieces in turn, so that several meet in one comment, and names that are the same but for what is lost."""
    pieces = [p for key, p in (PIECES | UNPRINTABLE).items() if key != "long"]
    check_tokens(in_every_place(innocent.plan, lambda n: FORMS[form](pieces[n % len(pieces)], n)), expected)
    check_tokens(in_every_place(innocent.plan, lambda n: FORMS[form](PIECES["comment end"], n)), expected)


def test_same_bits(hostile: Path, innocent: Built, tmp_path: Path) -> None:
    """From hostile files to the result: builds without a warning, runs to the bits of innocent names."""
    built = compile_case(pipeline.load_training(hostile), tmp_path / "c", "double", 2000, l2=2600, outermost="L3")
    outcome, other = built.run(), innocent.run()
    assert outcome.losses == other.losses
    assert [a.tobytes() for a in outcome.arrays.values()] == [a.tobytes() for a in other.arrays.values()]
    assert [x.split("=")[0] for x in outcome.text.split("\n")] == [x.split("=")[0] for x in other.text.split("\n")]


def test_nothing_runs_before_main(models_root: Path, tmp_path: Path) -> None:
    """The name of one node ends its comment and brings assembler; that is text and is not assembled."""
    train = case_dir("simple_mlp", models_root)
    names = {n.name for n in onnx.load(str(train / "network.onnx")).graph.node}
    folder = rename_case(train, tmp_path / "case", lambda n: f"{n}*/ {ATTACK} /*" if n in names else n)
    built = compile_case(pipeline.load_training(folder), tmp_path / "c", "double", 2000)
    built.run()
    assert not (tmp_path / "c" / MARK).exists(), "code from a name was run"


def test_fault_is_told_on_one_line(models_root: Path, tmp_path: Path) -> None:
    """A name that looks like the simulator's words cannot tell another step than the one at fault."""
    train = case_dir("simple_mlp", models_root)
    folder = rename_case(train, tmp_path / "case", lambda n: n + PIECES["forged lines"])
    built = compile_case(pipeline.load_training(folder), tmp_path / "c", "double", 2000)
    path = tmp_path / "c" / "TrainingNetwork.c"
    text, count = re.subn(r"hal_dma_wait\((\w+_in\[\w*use\])\)", r"(void)\1", path.read_text(), count=1)
    assert count == 1
    path.write_text(text)
    pipeline.build_case(built.plan, tmp_path / "c")
    with pytest.raises(RunFailed) as caught:
        built.run()
    facts = [line for line in str(caught.value).splitlines() if line.strip().startswith(("hal: step", "said"))]
    [step] = re.findall(r"hal: step (\d+) '[^']*': forgotten-wait:", "\n".join(facts))
    assert dict(caught.value.facts)["step"].startswith(f"{step} ")
    assert not re.search(r"^(BENCH|\[loss|Errors)", str(caught.value), re.MULTILINE)


def test_reports(hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All that a command prints and writes: no line, no colour, no element and no member comes from a name."""
    flags = ["--l1", "2000", "--tolerance", "0", "-v", "--plotMemAlloc", "--profileTiling"]
    status = deployer("train", "-t", hostile, "-o", tmp_path / "c", *flags, "--dump", tmp_path / "d.npz")
    streams = capsys.readouterr()
    assert (status, streams.err) == (1, "")
    lines = streams.out.split("\n")
    assert all(line.isprintable() for line in lines)
    assert [sum(line.startswith(x) for line in lines) for x in ("BENCH", "Errors:", "[loss ")] == [1, 1, 4]
    assert sum(line.startswith("FAULT ") for line in lines) >= 2
    for name in ("plan.json", "tiling.json", "report.json", "profile.json"):
        text = (tmp_path / "c" / name).read_text()
        assert re.fullmatch(r"[ -~\n]*", text), name
        json.loads(text)
    weights = artefact.load(Plan, tmp_path / "c" / "plan.json").weights
    with np.load(tmp_path / "d.npz") as dump:
        assert len(dump.files) == len(weights) + 1
        assert all(name.isprintable() and ".." not in name.split("/") for name in dump.files)


class Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, frozenset[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element with the names of its attributes."""
        self.found.append((tag, frozenset(name for name, _ in attrs)))


@pytest.mark.parametrize("piece", PIECES | UNPRINTABLE)
def test_memory_map(piece: str, innocent: Built) -> None:
    """The page has the elements that it has with innocent names, in plain ASCII."""
    plan = in_every_place(innocent.plan, lambda n: f"n{n}{(PIECES | UNPRINTABLE)[piece]}")
    text = memory_page(plan)
    assert Elements(text).found == Elements(memory_page(innocent.plan)).found
    assert re.fullmatch(r"[ -~\n]*", text)


@pytest.mark.parametrize("piece", PIECES | UNPRINTABLE)
def test_messages(piece: str) -> None:
    """An error has as many lines as it has rows, whatever the names in it."""
    text = (PIECES | UNPRINTABLE)[piece]
    shown = str(UserError(f"node {text} is wrong", [("inputs", f"a, {text}")], f"rename {text}"))
    first, *others = shown.split("\n")
    assert first.startswith("UserError: node ")
    assert all(line.startswith("  ") for line in others), "a name begins a line"
    assert all(line.isprintable() and len(line) < 5000 for line in shown.split("\n"))


def places(body: object, selects: Callable[[dict[str, object], str], bool]) -> Iterator[tuple[dict[str, object], str]]:
    """(table, key) of the texts in a JSON document that `selects` is true for."""
    values = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    if isinstance(body, dict):
        yield from ((body, key) for key, value in body.items() if isinstance(value, str) and selects(body, key))
    for value in values:
        yield from places(value, selects)


OURS = {
    "a kernel": ("Kernel", "symbol"),
    "an operand": ("PlanOperand", "arg"),
    "a dim": ("PlanDim", "name"),
    "a level": ("LevelUse", "name"),
}


@pytest.mark.parametrize("text", ["../../owned", "a; int owned", "a\nint owned", "größe", "int", "", "@x", "a*/"])
@pytest.mark.parametrize("place", OURS)
def test_what_a_plan_names_in_c(
    place: str, text: str, innocent: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an edited plan, a word of ours that is no identifier is refused before anything is written."""
    kind, field = OURS[place]
    document = json.loads(artefact.dumps(innocent.plan))
    table, key = next(places(document, lambda table, key: table.get("_") == kind and key == field))
    table[key] = text
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    message = refused(capsys, "emit", "--plan", path, "-o", tmp_path / "a" / "b" / "c")
    assert "is not an identifier of C" in message
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_is_one_of_ours(innocent: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan cannot bring a target, which names a compiler, from elsewhere."""
    (tmp_path / "evil.toml").write_text('name = "evil"')
    options = replace(innocent.plan.options, target=str(tmp_path / "evil"))
    (tmp_path / "plan.json").write_text(artefact.dumps(replace(innocent.plan, options=options)))
    assert "there is no target" in refused(capsys, "emit", "--plan", tmp_path / "plan.json", "-o", tmp_path / "c")


def test_names_survive_artefacts(innocent: Built, tmp_path: Path) -> None:
    """A plan is read back with the names that were written; half surrogates, which no file may hold, aside."""
    pieces = [text for text in (PIECES | UNPRINTABLE).values() if text == text.encode(errors="replace").decode()]
    for shift in range(0, len(pieces), 12):
        plan = in_every_place(innocent.plan, lambda n, shift=shift: f"{n}{pieces[(n + shift) % len(pieces)]}")  # type: ignore[misc]
        (tmp_path / "plan.json").write_text(artefact.dumps(plan))
        assert artefact.load(Plan, tmp_path / "plan.json") == plan
