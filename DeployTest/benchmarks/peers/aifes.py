"""AIfES beside our libraries on a Cortex-M4 under its emulator: instructions, code and memory of one training step.

Run as `AIFES=FOLDER python -m DeployTest.benchmarks.peers.aifes`, with the folder of AIfES for Arduino, which stays
outside; it writes aifes.json and the table of docs/firmware.md. Both have the same weights, samples, rate and compiler,
and have to print the same losses: of squares, since AIfES's softmax takes a coarse exponential. AIfES runs its portable
functions; CMSIS-DSP, which it can use, it does not bring.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from deployer import pipeline
from deployer.codegen.c_text import decimal_literal
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.firmware.library import library_files
from deployer.firmware.sources import library_rules
from deployer.sizing.boards import CORES, Core, core_of
from deployer.sizing.emulated import CALLS, link_words, run_example, run_program
from deployer.sizing.needs import NAME, is_constant, material
from deployer.sizing.objects import compile_library, run_tool
from deployer.training.train_graph import build_train_graph
from DeployTest.benchmarks.cores import struct_bytes
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.tolerances import assert_close

HERE = Path(__file__).resolve().parent
RESULT = HERE / "aifes.json"
PAGE = HERE.parents[2] / "docs" / "firmware.md"
MARKS = ("<!-- peer table -->", "<!-- end of peer table -->")
CORE = "cortex-m4"
OUTPUTS, RATE, STEPS = 10, 0.05, 4


@dataclass(frozen=True)
class Net:
    """A network of two layers with biases and a ReLU: its input's shape, and units or filters of its first layer."""

    title: str
    shape: tuple[int, ...]
    hidden: int

    @property
    def flat(self) -> int:
        """Numbers that the last layer reads of a sample."""
        return self.hidden * int(np.prod(self.shape[2:])) if len(self.shape) > 2 else self.hidden


NETS = (
    Net("dense 64-48-10, batch 1", (1, 64), 48),
    Net("dense 64-48-10, batch 8", (8, 64), 48),
    Net("3x3 convolution of 1x16x16 to 8 channels, dense 10", (1, 1, 16, 16), 8),
)


@dataclass(frozen=True)
class Row:
    """A step of a network by a library: instructions, bytes of code, bytes of memory."""

    net: str
    library: str
    instructions: int
    text: int
    memory: int


def weights_of(net: Net) -> dict[str, Array]:
    """First weights, drawn with a fixed seed."""
    draw = np.random.default_rng(1)
    first = (net.hidden, net.shape[1], 3, 3) if len(net.shape) > 2 else (net.shape[1], net.hidden)
    shapes = {"first": first, "first_bias": (net.hidden,), "last": (net.flat, OUTPUTS), "last_bias": (OUTPUTS,)}
    return {name: (0.1 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def samples_of(net: Net) -> dict[str, Array]:
    """Inputs and targets of all steps."""
    draw = np.random.default_rng(2)
    x = draw.standard_normal((STEPS, *net.shape)).astype(np.float32)
    return {"x": x, "target": draw.standard_normal((STEPS, net.shape[0], OUTPUTS)).astype(np.float32)}


def ours(net: Net, core: Core, folder: Path) -> tuple[Row, list[float]]:
    """Our library of the network on the core, and its losses."""
    weights, samples = weights_of(net), samples_of(net)
    if len(net.shape) > 2:
        body = [helper.make_node("Conv", ("x", "first", "first_bias"), ("h",), pads=(1, 1, 1, 1))]
    else:
        body = [helper.make_node("Gemm", ("x", "first", "first_bias"), ("h",))]
    body += [helper.make_node("Relu", ("h",), ("r",)), helper.make_node("Flatten", ("r",), ("f",))]
    body += [helper.make_node("Gemm", ("f", "last", "last_bias"), ("y",))]
    ends = [("x", net.shape), ("y", (net.shape[0], OUTPUTS))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(body, "net", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx")
    report = build_train_graph(folder / "net.onnx", "mse", "sgd", RATE, "", folder / "case", data=samples)
    case = pipeline.load_training(report.train)
    files = library_files(material(case, NAME, Options(target=library_rules().target)))
    built = compile_library(files, NAME, core)
    run = run_example(files, NAME, built)
    text = sum(row[0] for symbol, row in built.functions.items() if not is_constant(symbol))
    losses = [float(line.split()[3]) for line in run.printed.splitlines() if line.startswith("loss")]
    return Row(net.title, "ours", sum(run.instructions[:2]), text, struct_bytes(files)), losses


def theirs(net: Net, core: Core, source: Path, folder: Path) -> tuple[Row, list[float]]:
    """AIfES with the network on the core, and its losses."""
    (folder / "problem.h").write_text(problem(net))
    rules = library_rules()
    compiled = [core.compiler, "-std=gnu11", rules.optimize, "-ffunction-sections", "-w", *core.flags]
    includes = [f"-I{source / 'src'}", f"-I{folder}", f"-I{HERE}", f"-I{CORES}"]
    rooms = ("basic/base", "basic/default", "cnn/base", "cnn/default")
    files = [str(path) for room in rooms for path in sorted((source / "src" / room).rglob("*.c"))]
    run_tool([*compiled, *includes, "-c", *files], folder)
    objects = [str(path) for path in sorted(folder.glob("*.o"))]
    wrapped = [f"-Wl,--wrap=peer{call}" for call in CALLS]
    own = ["-include", "aifes_step.h", "-DLIBRARY=peer", *(str(CORES / file) for file in ("start.c", "measure.c"))]
    own += [str(HERE / "aifes_main.c"), str(HERE / "aifes_step.c")]
    program = folder / "program.elf"
    run_tool([*compiled, *includes, *own, *objects, *wrapped, *link_words(core), "-o", str(program)], folder)
    printed = run_program(core, program)
    [ticks] = re.findall(r"measured _train_step (\d+) ticks", printed)
    [held] = re.findall(r"bytes (\d+)", printed)
    losses = [float(line.split()[2]) for line in printed.splitlines() if line.startswith("loss")]
    text = linked_text(core, objects, program)
    return Row(net.title, "AIfES", round(int(ticks) * core.tick), text, int(held)), losses


def linked_text(core: Core, objects: list[str], program: Path) -> int:
    """Bytes of the functions of these objects that the linker kept in the program."""
    tool = core.compiler.replace("-gcc", "-nm")

    def functions(words: list[str]) -> Mapping[str, int]:
        rows = [line.split() for line in run_tool([tool, "--print-size", "--defined-only", *words]).splitlines()]
        return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "tT"}

    linked = functions([str(program)])
    return sum(size for name, size in functions(objects).items() if name in linked)


def problem(net: Net) -> str:
    """The header with the network's sizes, samples and first weights."""
    weights, samples = weights_of(net), samples_of(net)
    sizes = {"BATCH": net.shape[0], "OUTPUTS": OUTPUTS, "STEPS": STEPS, "RATE": f"{RATE}f"}
    sizes["FILTERS" if len(net.shape) > 2 else "HIDDEN"] = net.hidden
    lines = [f"#define {name} {value}" for name, value in sizes.items()]
    lines.append(f"#define INPUT_SHAPE {{{', '.join(map(str, net.shape))}}}")
    for name, array in (("inputs", samples["x"]), ("targets", samples["target"])):
        rows = ",\n".join("{" + _literals(row) + "}" for row in array)
        lines.append(f"static const float {name}[STEPS][{array[0].size}] = {{{rows}}};")
    names = {"first": "first_weights", "first_bias": "first_bias", "last": "last_weights", "last_bias": "last_bias"}
    lines += [f"static const float {names[name]}[] = {{{_literals(array)}}};" for name, array in weights.items()]
    return "\n".join(lines) + "\n"


def _literals(array: Array) -> str:
    return ", ".join(map(decimal_literal, array.reshape(-1).tolist()))


def table(rows: list[Row]) -> str:
    """The page's table."""
    lines = ["| network | library | instructions a step | code | memory |", "|---|---|---:|---:|---:|"]
    for row in rows:
        cells = [f"{n:,}".replace(",", " ") for n in (row.instructions, row.text, row.memory)]
        lines.append(f"| {row.net} | {row.library} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure all networks, and write result and page."""
    source = Path(os.environ.get("AIFES", ""))
    if not (source / "src" / "aifes.h").is_file():
        raise SystemExit("AIFES has to name the folder of AIfES for Arduino, with src/aifes.h")
    core, rows = core_of(CORE), []
    for net in NETS:
        with tempfile.TemporaryDirectory() as folder:
            one, losses = ours(net, core, Path(folder))
            two, peer_losses = theirs(net, core, source.resolve(), Path(folder))
        print(one, losses, two, peer_losses, sep="\n", flush=True)
        assert_close("losses", np.array(losses, np.float32), np.array(peer_losses, np.float32))
        rows += [one, two]
    RESULT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    publish(__file__, PAGE, MARKS, table(rows))


if __name__ == "__main__":
    main()
