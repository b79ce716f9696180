"""The fuzzer: a bounded campaign without findings, inputs that can be repeated, and faults that it must see."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import GraphProblem, InternalError
from deployer.core.operator import file_of, registry
from deployer.frontend import check, parse
from deployer.verify.reference import run_inference
from DeployTest.faults.fuzz import campaign, coverage, draw, models, reference, register, trial, watch, worker
from DeployTest.faults.fuzz.edits.register import edits
from DeployTest.faults.fuzz.trial import Trial, Verdict

pytestmark = [pytest.mark.host, pytest.mark.models]
SEED, INPUTS, BUILT = 1, 120, 3
"""A seed whose first inputs are of every kind."""


@pytest.mark.slow
def test_campaign(tmp_path: Path) -> None:
    """The first inputs of a fixed seed show nothing, and reach every kind, onnxruntime and the C compiler."""
    summary = campaign.run(SEED, range(INPUTS), BUILT, tmp_path, workers=1, quiet=True)
    lines = [f"{key}\n{finding.get('replay')}\n{finding.get('text')}" for key, finding in summary.findings.items()]
    assert not lines, "\n\n".join(lines)
    assert sum(summary.counts.values()) == INPUTS
    assert {kind for kind, _ in summary.counts} == set(register.kinds())
    assert summary.compared["equal to onnxruntime"] > 0
    assert summary.built["built and passed"] >= BUILT


def _judge(tmp_path: Path, index: int) -> tuple[list[str], Verdict]:
    with (tmp_path / "phases").open("w") as sink:
        case_trial, verdict = worker.Worker(SEED, tmp_path / "w", sink).judge(index)
    return case_trial.log, verdict


@pytest.fixture
def kept_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker sets where caches, reports and temporary files lie; in this process that ends with the test."""
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    monkeypatch.setenv("XDG_STATE_HOME", os.environ.get("XDG_STATE_HOME", ""))


@pytest.mark.usefixtures("kept_environment")
def test_an_input_is_always_the_same(tmp_path: Path) -> None:
    """Drawn edits, verdict and message of an input do not depend on what was judged before it."""
    graphs = [i for i in range(60) if worker.kind_of(SEED, i)[0] in ("graph", "graph_bytes", "data")][:12]
    first = [_judge(tmp_path, i) for i in graphs]
    again = [_judge(tmp_path, i) for i in reversed(graphs)][::-1]
    assert first == again


def _verdict(tmp_path: Path, kind: Callable[[Trial], str]) -> Verdict:
    return trial.run(Trial(SEED, 0, tmp_path / "trial"), kind)


def _writes(subject: Trial) -> str:
    with trial.contained(subject):
        (subject.case / "network.onnx").write_text("x")
    return "accepted"


def _removes(subject: Trial) -> str:
    precious = subject.work / "mine.c"
    precious.write_text("int mine;")
    with trial.contained(subject, precious):
        precious.unlink()
    return "accepted"


def _reads(subject: Trial) -> str:
    (subject.secret / "key").write_text("x")
    (subject.case / "link").symlink_to(subject.secret / "key")
    with trial.contained(subject):
        (subject.case / "link").read_text()
    return "accepted"


def _starts(subject: Trial) -> str:
    with trial.contained(subject):
        os.system("true")
    return "accepted"


def _spins(subject: Trial) -> str:
    while True:
        pass


def _raises(error: BaseException) -> Callable[[Trial], str]:
    def kind(subject: Trial) -> str:
        raise error

    return kind


SEEN: dict[str, tuple[Callable[[Trial], str], str]] = {
    "write": (_writes, "stray access"),
    "remove": (_removes, "stray access"),
    "read": (_reads, "stray access"),
    "program": (_starts, "stray access"),
    "hang": (_spins, "hang"),
    "crash": (_raises(KeyError("x")), "crash"),
    "memory": (_raises(MemoryError()), "memory"),
    "exit 70": (_raises(InternalError("[rule] broken")), "exit 70"),
    "no cause": (_raises(GraphProblem("")), "message"),
}


@pytest.mark.parametrize("name", SEEN)
def test_fault_is_a_finding(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class of fault, committed by a kind of input of its own."""
    monkeypatch.setattr(trial, "SECONDS", 0.2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    kind, sort = SEEN[name]
    verdict = _verdict(tmp_path, kind)
    assert (verdict.end, verdict.sort) == ("finding", sort)


@pytest.mark.parametrize("message", ["x\n" * 100, "x" * 10_000, "a\x1b[31m", "a\rb", "a\u202eb"])
def test_bad_message_is_a_finding(message: str) -> None:
    """A refusal that does not fit a screen, or acts on it, is none."""
    assert trial.refusal(message, "cause", "place").sort == "message"
    assert trial.refusal("one line\n  try  another", "cause", "place").end == "refused"


def test_a_stray_write_does_not_happen(tmp_path: Path) -> None:
    """A stray write is refused, and the file stays as it was."""
    (tmp_path / "mine").write_text("mine")
    with watch.watching([tmp_path / "allowed"]) as seen, pytest.raises(watch.StrayError):
        (tmp_path / "mine").write_text("x")
    assert (tmp_path / "mine").read_text() == "mine"
    assert len(seen) == 1


@pytest.mark.usefixtures("kept_environment")
def test_wrong_meaning_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator whose reference is off by 1e-3 differs from onnxruntime in some input that has it."""

    def wrong(node: object, inputs: list[np.ndarray]) -> tuple[np.ndarray]:
        return (np.maximum(inputs[0], 0) + inputs[0].dtype.type(1e-3),)

    monkeypatch.setattr(registry()["Relu"], "reference", wrong)
    with (tmp_path / "phases").open("w") as sink:
        judge = worker.Worker(SEED, tmp_path / "w", sink).judge
        standard = (i for i in range(12000) if worker.kind_of(SEED, i)[0] == "standard_graph")
        verdicts = (judge(i)[1] for i in standard if _has(i, "Relu"))
        assert any(v.sort == "different" for v in verdicts)


def _has(index: int, op: str) -> bool:
    graph = models.chain(draw.Draw(SEED, index, "model"), longest=8, standard=True)
    return any(n.op_type == op for n in graph.nodes)


@pytest.mark.slow
def test_a_dead_worker_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The input a process died of is named, and the others are judged all the same."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def hook(name, given):\n"
        "    if name == 'os.chdir' and os.environ.get('DIES_AT') and 'trial/work' in str(given[0]):\n"
        "        count = int(open(os.environ['DIES_AT']).read() or 0) + 1\n"
        "        open(os.environ['DIES_AT'], 'w').write(str(count))\n"
        "        if count == 3: os.abort()\n"
        "sys.addaudithook(hook)\n"
    )
    (tmp_path / "count").write_text("0")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DIES_AT", str(tmp_path / "count"))
    inputs = [i for i in range(200) if worker.kind_of(SEED, i)[0] == "graph_bytes"][:6]
    summary = campaign.run(SEED, inputs, 0, tmp_path / "out", workers=1, quiet=True)
    assert sum(summary.counts.values()) == len(inputs)
    [(key, finding)] = [(k, f) for k, f in summary.findings.items() if k.startswith("worker died")]
    assert f"--only {inputs[2]} " in finding["replay"]
    assert "status -6" in key


def test_reference_leaves_out_dead_nodes_alone(tmp_path: Path) -> None:
    """A node whose result nobody reads is left out; one that stands behind its reader is not."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y)
              { y = Neg (a)  a = Abs (b)  dead = Sqrt (b)  b = Exp (x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    model = onnx.load(reference._what_counts(tmp_path / "model.onnx"))
    assert [node.op_type for node in model.graph.node] == ["Neg", "Abs", "Exp"]


def test_reference_leaves_out_declared_values(tmp_path: Path) -> None:
    """ONNX Runtime refuses a value in between that is declared with another type, of which the compiler warns."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y)
              <int64[3] a> { a = Abs (x)  y = Neg (a) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    with pytest.raises(Exception, match="does not match expected type"):
        reference.session(tmp_path / "model.onnx")
    assert reference.session(reference._what_counts(tmp_path / "model.onnx"))


def test_reference_keeps_what_inner_graphs_read(tmp_path: Path) -> None:
    """A value that only a branch reads counts."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (bool c, float[2] x) => (float[2] y)
              { a = Abs (x)  dead = Sqrt (x)
                y = If (c) <then_branch = t () => (float[2] u) { u = Neg (a) },
                            else_branch = e () => (float[2] v) { v = Exp (x) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    model = onnx.load(reference._what_counts(tmp_path / "model.onnx"))
    assert [node.op_type for node in model.graph.node] == ["Abs", "If"]


def test_tools_end_a_trial(tmp_path: Path) -> None:
    """A command that comes as far as a compiler has been judged; another program is a finding."""
    case = Trial(SEED, 0, tmp_path)
    with pytest.raises(watch.Reached), trial.contained(case, tools=["gcc"]):
        subprocess.run(["gcc", "--version"], check=False)
    with pytest.raises(trial.Finding, match="starts false"), trial.contained(case, tools=["gcc"]), suppress(OSError):
        subprocess.run(["false"], check=False)


def test_every_operator_is_drawn() -> None:
    """Operators come from the registry: none is left out but those of later versions, and every chain is a model."""
    names = {op.name for op, _ in models.entries(False)}
    assert names == {op.name for op in registry().values() if min(file_of(op).versions, default=0) <= models.OPSET}
    for index in range(20):
        onnx.shape_inference.infer_shapes(models.chain(draw.Draw(SEED, index)).model())


def test_excuses() -> None:
    """An excuse is a pattern and a reason; that of a different result names the test that has a minimal case."""
    assert all(e.reason and e.pattern for e in reference.excuses())
    tests = "".join(path.read_text() for path in Path(__file__).resolve().parents[1].rglob("test_*.py"))
    for excuse in [e for e in reference.excuses() if e.sort == "different"]:
        named = re.search(r"\((test_\w+)\)", excuse.reason)
        assert named, excuse
        assert f"def {named[1]}(" in tests, excuse
    for line, excused in (("nan in v0_1", True), ("functions nan.in", False)):
        text = f"output 'y' is 0.5, onnxruntime's -1\nMaxPool ('v0_1') -> ('y')\nopsets ai.onnx:21\n{line}"
        assert bool(reference.excused("different", text)) is excused
    assert reference.excused("refused", "Fatal error: com.microsoft:ReluGrad(-1) is not a registered function/op")
    assert not reference.excused("refused", "Fatal error: com.microsoft:Relu(-1) is not a registered function/op")
    assert not reference.excused("refused", "Fatal error: evil:ReluGrad(-1) is not a registered function/op")
    cut = "This is an invalid model. In Node, (\"a{}\nAcos ('x') -> ('y,') \nopsets ai.onnx:21"
    assert reference.excused("refused", cut.format(""))
    assert not reference.excused("refused", cut.format('", Foo, "") Error No Op registered for Foo'))
    kinds = "data_0 has inconsistent type tensor({})"
    assert reference.excused("refused", kinds.format("double"))
    assert not reference.excused("refused", kinds.format("int64"))


def test_edits_are_registered_once() -> None:
    """Each kind has edits, and no two of one kind share a name."""
    for kind in ("graph", "archive", "artefact", "toml", "table", "header", "record", "folder"):
        names = [e.__name__ for e in edits(kind)]
        assert len(names) > 2
        assert len(names) == len(set(names))


def test_readers_under_coverage(tmp_path: Path) -> None:
    """Readers called by atheris take damaged bytes without an exception; so do they without it."""
    for name in coverage.READERS:
        once = coverage.reader(name, tmp_path / name)
        for data in (b"", b"PK\x03\x04", b"\x0a\xff\xff\xff", os.urandom(64)):
            once(data)


def test_time_is_the_processors(tmp_path: Path) -> None:
    """An input that sleeps is no hang of its own: other processes may hold the machine."""

    def sleeps(subject: Trial) -> str:
        time.sleep(0.3)
        return "slept"

    assert _verdict(tmp_path, sleeps).end == "accepted"


def test_noise_reaches_what_was_folded(tmp_path: Path) -> None:
    """The judge's twin computes a fully folded model from inputs of the same values, and from constant scalars."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y, float[2] z, float[4] q)
              <float[2] w = {20, 21}, float[2] v = {1, 3}, float h = {0.5}, int64[2] p = {1, 1}>
              { a = Cosh (w)  y = Mod <fmod = 1> (a, v)  z = Abs (x)  q = Pad (w, p, h) }"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    program = check.check_program(parse.read_graphs(path, None))
    assert {node.op for node in program.nodes} == {"Abs"}
    data = {"x": np.ones(2, np.float32)}
    twin, given = reference._unfolded(program, data, path)
    assert {"Abs", "Mod", "Pad"} <= {node.op for node in twin.nodes}
    exact = run_inference(program, data, np.float64)
    assert reference.magnified(twin, given, "y", exact["y"], exact["y"] + 0.5)
    assert not reference.magnified(twin, given, "z", exact["z"], exact["z"] + 0.5)


def test_noise_beside_nan(tmp_path: Path) -> None:
    """A value that is NaN under any noise must be NaN elsewhere; its neighbours are compared as usual."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { z = Abs (x)  y = Atanh (z) }"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    program = check.check_program(parse.read_graphs(path, None))
    data = {"x": np.array([0.99885, 2.0])}
    with np.errstate(all="ignore"):
        exact = run_inference(program, data, np.float64)["y"]
        assert reference.magnified(program, data, "y", exact, exact + 1e-4)
        assert not reference.magnified(program, data, "y", exact, exact + 1.0)
        assert not reference.magnified(program, data, "y", exact, np.array([exact[0], 1.0]))


def test_places_of_results_that_rounding_tells_apart(tmp_path: Path) -> None:
    """Rounding may reorder three equal results of Softplus, but not three equal inputs."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[5] x, float[15] u) => (int64[2] i, int64[2] j)
              <int64[1] three = {3}, int64[1] two = {2}>
              { t = Tile (x, three)  s = Softplus (t)  v, i = TopK <largest = 0> (s, two)
                w, j = TopK <largest = 0> (u, two) }"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    program = check.check_program(parse.read_graphs(path, None))
    data = {"x": np.array([0.0, 0.9, -1.4, 1.5, -0.2]), "u": np.tile([0.0, 0.9, -1.4, 1.5, -0.2], 3)}
    exact = run_inference(program, data, np.float64)
    assert exact["i"].tolist() == exact["j"].tolist() == [2, 7]
    assert reference.magnified(program, data, "i", exact["i"], np.array([12, 2]))
    assert not reference.magnified(program, data, "j", exact["j"], np.array([12, 2]))
    for nowhere in ([3, 3], [999, -5]):
        assert not reference.magnified(program, data, "i", exact["i"], np.array(nowhere))


def test_inputs_that_nobody_reads(tmp_path: Path) -> None:
    """An input that the compiler left out, here one with a value, has the shape that ONNX Runtime expects."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, float[1,3] w) => (float[2] y)
              <float[1,3] w = {1, 2, 3}> { y = Abs (x) }"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    program = check.check_program(parse.read_graphs(path, None))
    verdict = reference.compare(Trial(SEED, 0, tmp_path), program, path, {}, "")
    assert verdict == "equal to onnxruntime"


def test_samples_stay_within_their_types(tmp_path: Path) -> None:
    """Inputs read by ONNX Runtime alone are zero, narrow types hold no wider number, a single bool is an array."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, uint16[2] n, int64[2] i)
              => (float[2] y, uint16[2] m) { y = Abs (x)  m = Identity (n) }"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    program = check.check_program(parse.read_graphs(path, None))
    feeds = {"x": np.ones(2), "n": np.array([-3, 70000]), "i": np.array([5, 7])}
    kinds = {"x": "tensor(float)", "n": "tensor(uint16)", "i": "tensor(int64)"}
    drawn = reference._inputs(draw.Draw(SEED, 0, "feeds"), program, kinds, feeds)
    assert drawn["n"].tolist() == [65533, 4464]
    assert drawn["i"].tolist() == [0, 0]
    assert isinstance(reference._wide(np.bool_(True), "tensor(bool)"), np.ndarray)  # type: ignore[arg-type]
