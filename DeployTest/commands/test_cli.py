"""The known command lines from outside: what they print, write and return, and that no option changes a bit."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.commands.run_options import BUFFERINGS
from deployer.core.operator import registry
from deployer.core.target import load, names
from deployer.tilers.strategies.strategy import registry as strategies
from DeployTest.support.building.cases import SHARED, case_dir, needs_shared
from DeployTest.support.building.command_line import BENCH, ERRORS, LOSS, bits, deployer, figures, generated, script
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
TOLERANCE = table()["training"]["weight"]
L1 = 2000


@pytest.fixture(scope="module")
def trained(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of testMVPTraining with every kind of output: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("cli")
    case = case_dir("simple_mlp", models_root)
    flags = ["--l1", L1, "--doublebuffer", "--plotMemAlloc", "--profileTiling", "-v"]
    run = script("testMVPTraining", "-t", case, "-p", "host", "-o", folder, "--dump", folder / "out.npz", *flags)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder, run.stdout


def assert_matches(dump: Path, train: Path) -> None:
    """The losses and every trained weight of a case are in the dump, under their names, within the tolerance."""
    optimizer = onnx.load(train.with_name(train.name.replace("_train", "_optimizer")) / "network.onnx")
    trained = {output.name.removesuffix("_updated") for output in optimizer.graph.output}
    with np.load(dump) as results, np.load(train / "outputs.npz") as expected:
        assert set(results.files) == {*trained, "loss"}
        for name in results.files:
            assert results[name].shape == expected[name].shape
            assert np.abs(results[name].astype(np.float64) - expected[name]).max() <= TOLERANCE


def test_lines(trained: tuple[Path, str], models_root: Path) -> None:
    """A line per loss against the case's own, one BENCH line that is the model's, no errors."""
    folder, text = trained
    expected = np.load(case_dir("simple_mlp", models_root) / "outputs.npz")["loss"]
    losses = LOSS.findall(text)
    assert [int(index) for index, *_ in losses] == list(range(len(expected)))
    for _, computed, ref, diff in losses:
        assert float(diff) == pytest.approx(abs(float(computed) - float(ref)), abs=5e-7)
        assert len(computed.replace(".", "").lstrip("0")) <= 9
    assert np.array_equal(np.array([ref for _, _, ref, _ in losses], np.float32), expected)
    assert ERRORS.findall(text) == [("0", str(len(expected)))]
    [(train, optimizer, l1, l2, l3, clock)] = BENCH.findall(text)
    assert clock == "model"
    assert 0 < int(l1) <= L1
    assert int(l2) > 0
    assert int(l3) == 0
    assert int(train) > 0
    assert int(optimizer) > 0
    assert (folder / "network").is_file()


def test_dump(trained: tuple[Path, str], models_root: Path) -> None:
    """The dump holds final weights under graph names, and `loss`."""
    assert_matches(trained[0] / "out.npz", case_dir("simple_mlp", models_root))


def test_memory_map(trained: tuple[Path, str]) -> None:
    """The memory map needs nothing from anywhere else, and shows every buffer."""
    page = (trained[0] / "memory.html").read_text()
    assert not re.search(r"https?:|src=|@import|url\(", page)
    plan = json.loads((trained[0] / "plan.json").read_text())["body"]
    for home in plan["homes"]:
        assert f"<title>{home['storage']}: {home['bytes']} B at {home['offset']}," in page
    # The last step ends where the drawing ends, and no buffer lives beyond it.
    places = re.findall(r'<svg x="([\d.]+)%" y="[\d.-]+" width="([\d.]+)%"', page)
    assert max(float(x) + float(width) for x, width in places) == pytest.approx(100, abs=0.01)


def test_profile(trained: tuple[Path, str]) -> None:
    """Per step the waits and kernels stay within its cycles; the steps add up to the BENCH line."""
    folder, text = trained
    rows = json.loads((folder / "profile.json").read_text())
    for row in rows:
        busy = sum(row["ingress_wait"]) + sum(row["kernel"]) + sum(row["egress_wait"])
        assert 0 < busy <= row["cycles"]
        assert len(row["ingress_wait"]) == len(row["kernel"]) == len(row["egress_wait"])
    bench = figures(text)
    assert sum(row["cycles"] for row in rows) == int(bench["train_cycles"]) + int(bench["opt_cycles"])
    assert [row["step"] for row in rows] == list(range(len(rows)))


def test_step_table(trained: tuple[Path, str]) -> None:
    """-v prints a line per step with the full name of its operator."""
    folder, text = trained
    for step in json.loads((folder / "plan.json").read_text())["body"]["steps"]:
        assert re.search(rf"^ *{step['index']} +{step['op']} .* {step['bytes_in']} +{step['bytes_out']} ", text, re.M)


FLAGS = {
    "single": ["--singlebuffer"],
    "auto": ["--buffering", "auto"],
    "opt out": ["--buffering", "training_double", "--opt-out", "Gemm"],
    "no fusion": ["--no-fusion"],
    "no finish": ["--no-fusion", "finish", "--no-fusion", "accumulate"],
    "other L1": ["--l1", "100000"],
    "other L2": ["--l2", "8000"],
    "outermost L3": ["--defaultMemLevel", "L3"],
    "one core": ["--cores", "1"],
    "DMA early": ["--dma-order", "early"],
    "DMA random": ["--dma-order", "random", "--seed", "3"],
    "cores in reverse": ["--core-order", "reverse"],
    "sanitizers": ["--sanitize"],
}


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_same_bits(flags: list[str], trained: tuple[Path, str], models_root: Path, tmp_path: Path) -> None:
    """However a case is planned and run, every loss and weight has the same bits."""
    case = case_dir("simple_mlp", models_root)
    assert deployer("train", "-t", case, "-o", tmp_path, "--dump", tmp_path / "d.npz", "--l1", L1, *flags) == 0
    assert bits(tmp_path / "d.npz") == bits(trained[0] / "out.npz")


@pytest.mark.parametrize("test", ["SimpleMLP", "Autoencoder"])
def test_outside_case(test: str, tmp_path: Path) -> None:
    """A case that did not come from this project; its folder may be the one above."""
    folder = needs_shared(SHARED / "training" / test)
    dump = tmp_path / "sub" / "d.npz"
    run = script("testMVPTraining", "-t", folder, "-p", "host", "-o", tmp_path / "c", "--dump", dump)
    assert run.returncode == 0, run.stdout + run.stderr
    assert_matches(dump, next(folder.glob("*_train")))


def test_tolerance(
    models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values beyond the tolerance are named with exit code 1; a tolerance of 1 passes. The folder is relative."""
    words = "train", "-t", case_dir("simple_mlp", models_root).resolve(), "-o", "out", "--tolerance"
    monkeypatch.chdir(tmp_path)
    assert deployer(*words, "1") == 0
    capsys.readouterr()
    assert deployer(*words, "1e-12") == 1
    text = capsys.readouterr().out
    assert "FAULT fc1_weight[" in text
    assert re.search(r"^Errors: [1-9]", text, re.MULTILINE)


def test_steps_and_rate(trained: tuple[Path, str], models_root: Path, tmp_path: Path) -> None:
    """Passes, passes per update and the learning rate change the run, and the reference with it."""
    words = ["train", "-t", case_dir("simple_mlp", models_root), "-o", tmp_path, "--dump", tmp_path / "d.npz"]
    usual = np.load(trained[0] / "out.npz")
    assert deployer(*words, "--n-steps", "6", "--accumulate-grad-batches", "3") == 0
    dump = np.load(tmp_path / "d.npz")
    assert dump["loss"].shape == (6,)
    assert not np.array_equal(dump["fc1_weight"], usual["fc1_weight"])
    assert deployer(*words, "--lr", "0") == 0
    assert deployer(*words, "--lr=-0.0") == 0, "a zero has a sign, in C as in what the simulator expects"
    initial = np.load(case_dir("simple_mlp", models_root) / "inputs.npz")
    assert any(np.array_equal(np.load(tmp_path / "d.npz")["fc1_weight"], initial[n]) for n in initial.files)


def test_skips(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--skipsim builds and does not run; --skipgen builds and runs the C in the output folder, edited or not."""
    words = ["train", "-t", case_dir("simple_mlp", models_root), "-o", tmp_path]
    assert deployer(*words, "--skipsim") == 0
    assert "[loss" not in capsys.readouterr().out
    assert (tmp_path / "network").is_file()
    assert not (tmp_path / "report.json").exists()
    harness = tmp_path / "Harness.c"
    harness.write_text(harness.read_text().replace("[loss ", "[loss  "))
    assert deployer(*words, "--skipgen") == 0
    assert "[loss  0]" in capsys.readouterr().out


def test_optimizer(models_root: Path, tmp_path: Path) -> None:
    """The optimizer graph alone."""
    case = case_dir("simple_mlp", models_root)
    run = script("testMVPOptimizer", "-t", case, "-o", tmp_path, "--dump", tmp_path / "d.npz", "--l1", "2000")
    assert run.returncode == 0, run.stdout + run.stderr
    assert {name.removesuffix("_updated") for name in np.load(tmp_path / "d.npz").files} == {"fc1_weight", "fc2_weight"}
    sibling = case.with_name(case.name.replace("_train", "_optimizer"))
    assert deployer("optimizer", "-t", sibling, "-o", tmp_path, "--lr", "0.25", "--singlebuffer") == 0


@pytest.mark.models
def test_inference_script(tmp_path: Path) -> None:
    """testMVP.py is the same command."""
    folder = needs_shared(SHARED / "operators" / "MatMul")
    run = script("testMVP", "-t", folder, "-p", "host", "-o", tmp_path, "--dump", tmp_path / "d.npz")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "clock=model" in run.stdout


@pytest.fixture(scope="module")
def compiled(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `deployer compile` wrote."""
    folder = tmp_path_factory.mktemp("compiled")
    case = case_dir("simple_mlp", models_root)
    assert deployer("compile", "-t", case, "-o", folder, "--l1", L1, "--singlebuffer") == 0
    return folder


def test_reentry(compiled: Path, models_root: Path, tmp_path: Path) -> None:
    """From its own tiling, unedited, a case compiles to the same files."""
    case = case_dir("simple_mlp", models_root)
    assert deployer("compile", "-t", case, "-o", tmp_path, "--from", compiled / "tiling.json") == 0
    assert generated(tmp_path) == generated(compiled)


def test_edited_tiling(compiled: Path, models_root: Path, tmp_path: Path) -> None:
    """An edit gives the C of a run that chose it: undone, the first C; and what it gives trains to the same bits."""
    case = case_dir("simple_mlp", models_root)
    path = tmp_path / "tiling.json"
    text = (compiled / "tiling.json").read_text()
    artefact = json.loads(text)
    step = next(s for s in artefact["body"]["steps"] if s["step"] == "fc1")
    original, other = step["tile"]["k"], 8 if step["tile"]["k"] != 8 else 4
    for length, same in ((other, False), (original, True)):
        step["tile"]["k"] = length
        path.write_text(json.dumps(artefact))
        assert deployer("compile", "-t", case, "-o", tmp_path / "c", "--from", path) == 0
        network = (tmp_path / "c" / "TrainingNetwork.c").read_text()
        assert ((compiled / "TrainingNetwork.c").read_text() == network) is same
        assert f"k={length}/64" in network
    assert generated(tmp_path / "c") == generated(compiled)
    step["tile"]["k"] = other
    path.write_text(json.dumps(artefact))
    assert deployer("compile", "-t", case, "-o", tmp_path / "c", "--from", path) == 0
    assert deployer("train", "-t", case, "-o", tmp_path / "c", "--skipgen", "--dump", tmp_path / "d.npz") == 0
    assert deployer("train", "-t", case, "-o", tmp_path / "e", "--dump", tmp_path / "e.npz") == 0
    assert bits(tmp_path / "d.npz") == bits(tmp_path / "e.npz")


def test_emit(compiled: Path, tmp_path: Path) -> None:
    """The plan alone prints the same C and headers, harness included."""
    assert deployer("emit", "--plan", compiled / "plan.json", "-o", tmp_path) == 0
    expected = {name: text for name, text in generated(compiled).items() if name.endswith((".c", ".h"))}
    assert generated(tmp_path) == expected


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """`targets`, `operators`, `--version` and `--help` print the targets, operators, version and commands."""
    assert deployer("targets") == 0
    text = capsys.readouterr().out
    for name in names():
        assert re.search(rf"^ *{name} +{load(name).cores} ", text, re.MULTILINE)
    assert deployer("operators", "--all") == 0
    text = capsys.readouterr().out
    for name in registry():
        assert re.search(rf"^ *{name} ", text, re.MULTILINE)
    assert deployer("operators") == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith("  ")}
    assert {"Conv", "Gemm", "LSTM"} < listed
    assert listed.isdisjoint({"ReluGrad", "ConvGradW", "SGD", "IntegerAdd", "DropoutGrad", "Divided", "LSTMRecurrence"})
    assert deployer("--version") == 0
    assert deployer("--help") == 0
    text = capsys.readouterr().out
    for name in ("train", "optimizer", "infer", "compile", "emit", "train-graph", "targets", "operators"):
        assert name in text
    assert set(BUFFERINGS) == set(strategies())


def test_train_graph(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A training case made from a forward model trains."""
    model = case_dir("autoencoder", models_root).parent / "autoencoder.onnx"
    words = [
        "--loss",
        "mse",
        "--lr",
        "0.1",
        "--trainable",
        "decoder",
        "--samples",
        "3",
        "--accumulate-grad-batches",
        "3",
    ]
    assert deployer("train-graph", model, *words, "-o", tmp_path) == 0
    text = capsys.readouterr().out
    assert str(tmp_path / "autoencoder_train") in text
    assert deployer("train", "-t", tmp_path, "-o", tmp_path / "c", "--dump", tmp_path / "d.npz", "--l1", "8000") == 0
    assert_matches(tmp_path / "d.npz", tmp_path / "autoencoder_train")


def test_results_go_to_stdout_and_errors_to_stderr(
    models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results are printed to stdout alone, errors to stderr alone."""
    case = case_dir("simple_mlp", models_root)
    capsys.readouterr()
    for words in (["targets"], ["operators"], ["compile", "-t", case, "-o", tmp_path / "c", "-v"]):
        assert deployer(*words) == 0
        streams = capsys.readouterr()
        assert streams.out, words
        assert streams.err == "", words
    assert deployer("compile", "-t", tmp_path / "nowhere") == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "nowhere" in streams.err
