"""ONNX's own backend node tests as a score: which of them pass in generated C, and why the others are refused.

Run as `python -m DeployTest.suites.onnx_nodes`; with --write it renews docs/onnx-tests.md. The tests are those that the
onnx package brings along. A test passes where the compiler takes its model as it stands, with every input a graph
input, and what the generated C computes agrees with the test's own results within the test's own tolerances. Inputs
that a plan needs to know (axes, shapes, bounds) become constants where the model is refused otherwise; such a test
counts apart, and so does one of the few whose recorded result is itself further from the model's float64 meaning than
its tolerances, while what is computed is not (records.py). Exit code 1 where a value is wrong or anything unforeseen
happens.
"""

import argparse
import re
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from rich.console import Console

from deployer import pipeline
from deployer.core.errors import UserError
from deployer.core.operator import Array, file_of, registry
from deployer.core.plan import Options
from deployer.operators.control import controls
from DeployTest.suites.records import INEXACT_RECORDS, distance, meaning
from DeployTest.suites.refusals import group_of, table
from DeployTest.support.documents.pages import renew

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "onnx-tests.md"
MARKS = ("<!-- score -->", "<!-- end of score -->")
TOGETHER = 24
"""Models of equal opsets that share one program."""
IR_VERSION = 10
PASSED, CONSTANTS, INEXACT, REFUSED = "passed", "with constants", "record inexact", "refused"
WRONG, UNFORESEEN = "wrong", "unforeseen"
"""What becomes of a test."""
OUTCOMES = (PASSED, CONSTANTS, INEXACT, REFUSED, WRONG, UNFORESEEN)
SHOWN = OUTCOMES[:4]
"""Those that the table of operators has columns for."""
TWIN = "_expanded"
"""Marks tests of an operator's function body, which repeat those of the operator."""


@dataclass(frozen=True, eq=False)
class NodeTest:
    """One of ONNX's tests: a model, and its inputs and outputs by name. `constants` were inputs of the file."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    rtol: float
    atol: float
    constants: tuple[str, ...] = ()

    @property
    def operator(self) -> str:
        """The operator under test: the model's last node."""
        return str(self.model.graph.node[-1].op_type)

    @property
    def opsets(self) -> tuple[tuple[str, int], ...]:
        """Versions of the domains that its nodes are of."""
        return tuple(sorted((x.domain, x.version) for x in self.model.opset_import))

    @property
    def is_twin(self) -> bool:
        """Whether it is a function body in place of its operator."""
        return TWIN in self.name


@dataclass(frozen=True)
class Outcome:
    """Outcome of a test, and the reason."""

    test: str
    operator: str
    outcome: str
    reason: str = ""


@dataclass(eq=False)
class Joint:
    """Several tests as one model: their graphs side by side, with names that begin with the test's number."""

    tests: Sequence[NodeTest]
    model: onnx.ModelProto = field(init=False)

    def __post_init__(self) -> None:
        """Lay the graphs side by side."""
        graph = onnx.GraphProto(name="tests")
        for number, test in enumerate(self.tests):
            part = renamed(test.model.graph, f"t{number}_")
            for whole, of in (
                (graph.node, part.node),
                (graph.input, part.input),
                (graph.output, part.output),
                (graph.initializer, part.initializer),
            ):
                whole.extend(of)  # type: ignore[attr-defined]
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in self.tests[0].opsets]
        self.model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    def arrays(self, of: str) -> dict[str, Array]:
        """The `inputs` or `outputs` of all tests by the names in the joint model."""
        return {f"t{i}_{name}": array for i, test in enumerate(self.tests) for name, array in getattr(test, of).items()}

    def write(self, folder: Path) -> Path:
        """The case's folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        onnx.save(self.model, folder / "network.onnx")
        np.savez(folder / "inputs.npz", **self.arrays("inputs"))
        np.savez(folder / "outputs.npz", **self.arrays("outputs"))
        return folder


def renamed(graph: onnx.GraphProto, prefix: str) -> onnx.GraphProto:
    """A copy of a graph whose names begin with the prefix."""
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    for node in copy.node:
        node.name = prefix + node.name
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                attribute.g.CopyFrom(renamed(attribute.g, prefix))
        node.input[:] = [prefix + name if name else "" for name in node.input]
        node.output[:] = [prefix + name if name else "" for name in node.output]
    for value in (*copy.input, *copy.output, *copy.initializer):
        value.name = prefix + value.name
    return copy


def node_tests(pattern: str = "") -> Iterator[NodeTest | Outcome]:
    """ONNX's tests whose names match; an Outcome for those without tensors to compare."""
    from onnx.backend.test.case.node import collect_testcases  # it computes all results, which takes ten seconds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        if not re.search(pattern, case.name):
            continue
        graph = case.model.graph
        inputs, outputs = (
            [numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in arrays]
            for arrays in case.data_sets[0]
        )
        if not all(isinstance(x, np.ndarray | np.generic) for x in (*inputs, *outputs)):
            yield Outcome(case.name, graph.node[-1].op_type, REFUSED, "values that are not tensors")
            continue
        named = [{v.name: np.asarray(a) for v, a in zip(values, arrays, strict=False)}
                 for values, arrays in ((graph.input, inputs), (graph.output, outputs))]  # fmt: skip
        yield NodeTest(case.name, case.model, *named, case.rtol, case.atol)


def with_constants(test: NodeTest) -> NodeTest | None:
    """The test with those inputs as constants that their operators take as attributes; None where there are none.

    Of an operator that is computed by its function's body these are the integers, of one with graphs inside what says
    which are computed.
    """
    model = onnx.ModelProto()
    static = {name: {*file_of(operator).static_inputs} for name, operator in registry().items()}
    static |= {name: {*operator.static_inputs} for name, operator in controls().items()}
    model.CopyFrom(test.model)
    names = {
        name
        for node in model.graph.node
        for position, name in enumerate(node.input)
        if name in test.inputs
        and (position in static[node.op_type] if node.op_type in static else test.inputs[name].dtype.kind == "i")
    }
    if not names:
        return None
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(test.inputs[name], name) for name in sorted(names))
    inputs = {name: array for name, array in test.inputs.items() if name not in names}
    return NodeTest(test.name, model, inputs, test.outputs, test.rtol, test.atol, tuple(sorted(names)))


def reason_of(error: UserError) -> str:
    """The cause of a refusal without the names of nodes and tensors."""
    text = re.sub(r"node '[^']*'", "node", error.cause)
    return re.sub(r"'t\d+_[^']*'", "'x'", text).splitlines()[0][:160]


class Suite:
    """Runs tests in a folder; outcomes arrive as they are known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def accepted(self, test: NodeTest) -> NodeTest | Outcome:
        """The form of the test that can be planned, or why there is none."""
        error = self.refusal([test])
        if isinstance(error, UserError):
            constant = with_constants(test)
            again = self.refusal([constant]) if constant else error
            if constant and again is None:
                return constant
            return Outcome(
                test.name, test.operator, REFUSED, reason_of(again if isinstance(again, UserError) else error)
            )
        if error:
            return Outcome(test.name, test.operator, UNFORESEEN, error)
        return test

    def refusal(self, tests: Sequence[NodeTest]) -> UserError | str | None:
        """Why the compiler does not take the tests as one model; text where what it says is no refusal."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = pipeline.load_inference_case(Joint(tests).write(self.folder / "read"))
            if any(case.program.tensors[case.program.storage(name)].data is not None for name in case.program.outputs):
                return UserError("its result is folded: it does not depend on the inputs' values")
        except UserError as error:
            return error
        except Exception:
            return traceback.format_exc(limit=-3)
        return None

    def judged(self, tests: Sequence[NodeTest]) -> Iterator[Outcome]:
        """Yield the outcomes of accepted tests, run in one program, or in halves if that fails."""
        try:
            arrays = self.computed(tests)
        except Exception as error:
            if len(tests) > 1:
                for half in (tests[: len(tests) // 2], tests[len(tests) // 2 :]):
                    yield from self.judged(half)
                return
            [test] = tests
            if isinstance(error, UserError):
                yield Outcome(test.name, test.operator, REFUSED, reason_of(error))
            else:
                yield Outcome(test.name, test.operator, UNFORESEEN, traceback.format_exc(limit=-3))
            return
        for number, test in enumerate(tests):
            yield compared(test, {name: arrays[f"t{number}_{name}"] for name in test.outputs})

    def computed(self, tests: Sequence[NodeTest]) -> dict[str, Array]:
        """Return the results of the generated C."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = pipeline.load_inference_case(Joint(tests).write(self.folder / "case"))
            tiling, plan = pipeline.plan_case(case, Options("host", "auto", {}, outermost="L2"))
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        pipeline.write_case(case, tiling, plan, out)
        pipeline.build_case(plan, out)
        return pipeline.execute(case, plan, out).arrays


def compared(test: NodeTest, arrays: dict[str, Array]) -> Outcome:
    """Whether the arrays are the test's results, by its own tolerances; where not, whether the record is at fault."""
    for name, expected in test.outputs.items():
        computed = arrays[name].reshape(expected.shape)
        if not np.allclose(computed, expected, rtol=test.rtol, atol=test.atol, equal_nan=True):
            if test.name in INEXACT_RECORDS:
                return against_meaning(test, arrays)
            with np.errstate(invalid="ignore"):
                off = np.abs(computed.astype(np.float64) - expected.astype(np.float64))
            return Outcome(test.name, test.operator, WRONG, f"{name!r} is off by up to {np.nanmax(off):.3g}")
    return Outcome(test.name, test.operator, CONSTANTS if test.constants else PASSED, ", ".join(test.constants))


def against_meaning(test: NodeTest, arrays: dict[str, Array]) -> Outcome:
    """INEXACT where the record is further from the model's float64 meaning than the test allows, and no array is."""
    exact = dict(zip(test.outputs, meaning(test.model, test.inputs), strict=True))
    recorded, computed = (
        float(np.max([distance(of[name], exact[name], test.rtol, test.atol) for name in exact]))
        for of in (test.outputs, arrays)
    )
    figures = f"of the tolerance the record uses {recorded:.4g}, the generated C {computed:.2g}"
    if recorded > 1 >= computed:
        return Outcome(test.name, test.operator, INEXACT, f"{INEXACT_RECORDS[test.name]}; {figures}")
    return Outcome(test.name, test.operator, WRONG, f"beside its meaning in float64: {figures}")


def run(folder: Path, pattern: str = "") -> Iterator[Outcome]:
    """The outcome of each test."""
    suite, groups = Suite(folder), defaultdict[tuple[tuple[str, int], ...], list[NodeTest]](list)
    for test in node_tests(pattern):
        taken = test if isinstance(test, Outcome) else suite.accepted(test)
        if isinstance(taken, Outcome):
            yield taken
        else:
            groups[taken.opsets].append(taken)
    for _, tests in sorted(groups.items()):
        for begin in range(0, len(tests), TOGETHER):
            yield from suite.judged(tests[begin : begin + TOGETHER])


def summary(outcomes: Iterable[Outcome]) -> Counter[tuple[str, bool]]:
    """Count the tests by outcome, and by whether they are twins."""
    return Counter((o.outcome, TWIN in o.test) for o in outcomes)


def document(outcomes: Sequence[Outcome]) -> str:
    """The score and the list of refusals, in Markdown."""
    count = summary(outcomes)
    lines = [f"onnx {onnx.__version__}: {len(outcomes)} tests.", ""]
    lines += ["| | " + " | ".join(OUTCOMES) + " |", "|---|" + "---:|" * len(OUTCOMES)]
    for label, twin in (("operators", False), ("their function bodies", True)):
        lines.append(f"| {label} | " + " | ".join(str(count[outcome, twin]) for outcome in OUTCOMES) + " |")
    lines += ["", "| record inexact | why |", "|---|---|"]
    lines += [f"| {o.test} | {o.reason} |" for o in outcomes if o.outcome == INEXACT]
    by_operator = defaultdict[str, list[Outcome]](list)
    for outcome in outcomes:
        if TWIN not in outcome.test:
            by_operator[outcome.operator].append(outcome)
    refused = [(o.operator, o.reason) for o in outcomes if o.outcome == REFUSED and TWIN not in o.test]
    lines += ["", "## What is refused", "", *table(refused), "", "## Operator by operator"]
    head = ["operator", "tests", *SHOWN, "as"]
    lines += ["", f"| {' | '.join(head)} |", "|---|" + "---:|" * (1 + len(SHOWN)) + "---|"]
    for operator, of in sorted(by_operator.items()):
        numbers = Counter(o.outcome for o in of)
        causes = Counter(group_of(o.reason) for o in of if o.outcome == REFUSED)
        cells = [operator, len(of), *(numbers[outcome] for outcome in SHOWN), ", ".join(sorted(causes))]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main(words: list[str] | None = None) -> int:
    """Run, print what is wrong and the score."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.suites.onnx_nodes", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="tests whose names match a regular expression")
    parser.add_argument("--list", action="store_true", help="print the outcome of each test")
    parser.add_argument("--write", action="store_true", help=f"renew {DOCUMENT.name}")
    a = parser.parse_args(words)
    console, outcomes = Console(stderr=True), []
    with tempfile.TemporaryDirectory() as folder, console.status("tests") as status:
        for outcome in run(Path(folder), a.only):
            outcomes.append(outcome)
            status.update(f"{len(outcomes)} tests judged")
            if a.list or outcome.outcome in (WRONG, UNFORESEEN):
                print(f"{outcome.outcome:14} {outcome.test:48} {outcome.reason}", flush=True)
    if a.write:
        renew(DOCUMENT, MARKS, document(outcomes))
    count = Counter(o.outcome for o in outcomes)
    print(f"{len(outcomes)} tests: " + ", ".join(f"{count[outcome]} {outcome}" for outcome in OUTCOMES))
    return 1 if count[WRONG] or count[UNFORESEEN] else 0


if __name__ == "__main__":
    sys.exit(main())
