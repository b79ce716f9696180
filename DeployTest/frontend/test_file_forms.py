"""Contents of a file: domains, attributes of their kinds, inputs and outputs of every operator; nothing vanishes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper
from onnx.reference import ReferenceEvaluator

from deployer.core.errors import GraphProblem, NotDifferentiable, UnsupportedOperator
from deployer.core.ir import Node
from deployer.core.operator import Operator, file_of, registry
from deployer.core.signatures import NOTE, schema_signature
from deployer.frontend import check, parse
from deployer.frontend.opsets import harmless, imports_of, schema_version, versions_of
from deployer.testing.bench import step_of
from deployer.testing.gradients import EvaluatingBuilder
from deployer.training.onnx_writer import node_proto
from DeployTest.frontend.file_nodes import FileNode, attribute, file_node, ours
from DeployTest.support.graphs.small_graphs import DATA, TRAIN, Case, chain, constant, infer, node, raises
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.models]

OPSET = 26
PUBLIC = [op for name, op in registry().items() if name == op.name and file_of(op).in_files]
DEPRECATED = [op for op in PUBLIC if onnx.defs.has(op.name) and onnx.defs.get_schema(op.name).deprecated]
"""Operators of earlier sets alone: what they mean there is tested with the versions."""
STEPS = [op for name, op in registry().items() if name == op.name and not file_of(op).in_files]
IMPORTS = (("", OPSET), ("com.microsoft", 1))
ZERO: dict[str, object] = {"INT": 0, "INTS": (0,), "FLOAT": 0.0, "FLOATS": (0.0,), "STRING": "Relu"}


def _plain(operator: Operator) -> FileNode:
    """The operator's first sample that a file can hold, under OPSET."""
    version = schema_version(operator.name, OPSET)
    models = (file_node(operator, sample, version) for sample in operator.samples())
    return next(node for node in models if node is not None)


def _attribute_names() -> Iterator[tuple[str, str]]:
    """All names of attributes that any operator here or in ONNX has, with a kind."""
    names: dict[str, str] = {"activation": "STRING", "no_such_attribute": "INT"}
    for operator in registry().values():
        for sample in operator.samples():
            names |= {name: "INTS" if isinstance(value, tuple) else "INT" for name, value in sample.attrs.items()}
        names |= dict.fromkeys(file_of(operator).static_inputs.values(), "INTS")
        custom = file_of(operator).custom
        names |= dict(custom.attributes) if custom else {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.name in registry():
            names |= {name: item.type.name for name, item in schema.attributes.items()}
    yield from sorted((name, kind) for name, kind in names.items() if kind in ZERO)


ATTRIBUTES = list(_attribute_names())


def _refused(model: onnx.ModelProto, node: FileNode, folder: Path, *texts: str) -> None:
    with raises(UnsupportedOperator, f"({node.op})", *texts):
        ours(model, node.feed(), folder)


PARTS = 8
"""The quick suite tries one in so many attributes on each operator, other ones on the next; the slow one all."""


def _attempts() -> Iterator[object]:
    """Operators, each with the attributes of the quick suite and with the others."""
    for number, operator in enumerate(op for op in PUBLIC if not op.inplace and op not in DEPRECATED):
        few = ATTRIBUTES[number % PARTS :: PARTS]
        yield pytest.param(operator, few, id=operator.name)
        others = [attribute for attribute in ATTRIBUTES if attribute not in few]
        yield pytest.param(operator, others, id=f"{operator.name}-others", marks=pytest.mark.slow)


@pytest.mark.parametrize(("operator", "attributes"), list(_attempts()))
def test_what_an_operator_accepts(operator: Operator, attributes: list[tuple[str, str]], tmp_path: Path) -> None:
    """Its own form in its domains; no other domain, overload, attribute, kind, input or output."""
    plain = _plain(operator)
    ours(plain.model(*IMPORTS), plain.feed(), tmp_path)
    _check_domains(operator, plain, tmp_path)
    form = file_of(operator).custom if plain.version == 0 else schema_signature(operator.name, plain.version)
    assert form is not None
    extras = {e.attribute for e in (NOTE, *file_of(operator).extras, *harmless(operator.name)) if e.values is None}
    for name, kind in attributes:
        model = plain.model(*IMPORTS)
        model.graph.node[0].attribute.append(attribute(name, ZERO[kind], kind))  # type: ignore[arg-type]
        if name not in {*form.attributes, *extras}:
            _refused(model, plain, tmp_path, f"attribute {name!r} is unknown")
    for name, kind in sorted(form.attributes.items()):
        model = plain.model(*IMPORTS)
        others = [item for item in model.graph.node[0].attribute if item.name != name]
        del model.graph.node[0].attribute[:]
        wrong = helper.make_attribute(name, "1" if kind != "STRING" else 1)
        model.graph.node[0].attribute.extend([*others, wrong])
        _refused(model, plain, tmp_path, f"attribute {name!r} is of kind {'INT' if kind == 'STRING' else 'STRING'}")
    _check_counts(plain, form.inputs, form.outputs, tmp_path)


def _check_domains(operator: Operator, plain: FileNode, folder: Path) -> None:
    evil = replace(plain, domain="evil").model(*IMPORTS, ("evil", 1))
    _refused(evil, plain, folder, "domain 'evil' has no such operator")
    home = file_of(operator).domain or "com.microsoft"
    imports = dict(IMPORTS) | {home: 1}
    own = replace(plain, op=plain.op.removeprefix(f"{home}."), domain=home)
    if file_of(operator).custom is None:
        _refused(own.model(*imports.items()), plain, folder, "domain 'com.microsoft' has no such operator")
    elif set(plain.attrs) <= set(file_of(operator).custom.attributes):
        ours(own.model(*imports.items()), plain.feed(), folder)
    named = replace(plain, domain="ai.onnx").model(("ai.onnx", OPSET))
    ours(named, plain.feed(), folder)
    overloaded = plain.model(*IMPORTS)
    overloaded.graph.node[0].overload = "fast"
    _refused(overloaded, plain, folder, "overload 'fast'")


def _check_counts(plain: FileNode, inputs: tuple[int, int], outputs: tuple[int, int], folder: Path) -> None:
    first = next((n for n in plain.inputs if n), "")
    if inputs[1] < 100 and first:
        model = plain.model(*IMPORTS)
        names = model.graph.node[0].input
        names.extend([first] * (inputs[1] + 1 - len(names)))
        _refused(model, plain, folder, f"it has {inputs[1] + 1} inputs", f"at most {inputs[1]} inputs")
    if outputs[1] >= 100:
        return
    model = plain.model(*IMPORTS)
    names = model.graph.node[0].output
    names.extend(f"more{i}" for i in range(outputs[1] + 1 - len(names)))
    _refused(model, plain, folder, f"it has {outputs[1] + 1} outputs", f"at most {outputs[1]} outputs")


@pytest.mark.parametrize("operator", STEPS, ids=lambda op: op.name)
@pytest.mark.parametrize("domain", ["", "com.microsoft", "evil"])
def test_steps_of_the_compiler_are_in_no_file(operator: Operator, domain: str, tmp_path: Path) -> None:
    """An operator without a declared form is what others are lowered to, and nothing else."""
    sample = next(operator.samples())
    names = tuple(f"x{i}" for i in range(len(sample.inputs)))
    values = dict(zip(names, map(np.asarray, sample.inputs), strict=True))
    plain = FileNode(operator.name, 0, names, values, frozenset(), 1, dict(sample.attrs), domain)
    _refused(plain.model(*IMPORTS), plain, tmp_path, "an internal operator of the compiler")


@pytest.mark.parametrize("operator", [op for op in PUBLIC if op.inplace], ids=lambda op: op.name)
def test_operators_in_place_are_read_by_the_same_rule(operator: Operator) -> None:
    """Those that overwrite an input stand in training cases alone, so their nodes are looked at one by one."""
    assert file_of(operator).custom is not None
    (least, most), names = (
        file_of(operator).custom.outputs,
        [f"x{i}" for i in range(file_of(operator).custom.inputs[1])],
    )
    results = [f"y{i}" for i in range(least)]
    imports = imports_of([helper.make_opsetid(*item) for item in IMPORTS])

    def read(proto: onnx.NodeProto) -> None:
        versions_of(proto, Node("n", proto.op_type, tuple(proto.input), tuple(proto.output)), imports)

    for domain in ("", file_of(operator).domain or "com.microsoft"):
        read(helper.make_node(operator.name, names, results, domain=domain))
    wrong = {
        "domain 'evil'": helper.make_node(operator.name, names, results, domain="evil"),
        "attribute 'activation' is unknown": helper.make_node(operator.name, names, results, activation="Relu"),
        f"it has {len(names) + 1} inputs": helper.make_node(operator.name, [*names, "z"], results),
        f"it has {most + 1} outputs": helper.make_node(operator.name, names, [f"y{i}" for i in range(most + 1)]),
    }
    for text, proto in wrong.items():
        with raises(UnsupportedOperator, text):
            read(proto)


def test_the_list_of_exceptions() -> None:
    """Each is outside of its operator's newest form, has a reason, and only once."""
    assert NOTE.reason
    pairs = [(operator, extra) for operator in registry().values() for extra in file_of(operator).extras]
    assert len({(operator.name, extra.attribute) for operator, extra in pairs}) == len(pairs) > 0
    for operator, extra in pairs:
        assert extra.reason
        form = (
            schema_signature(operator.name, max(file_of(operator).versions))
            if file_of(operator).versions
            else file_of(operator).custom
        )
        assert form is not None
        assert extra.attribute not in form.attributes
        assert extra.instead_of < 0 or file_of(operator).static_inputs[extra.instead_of] == extra.attribute


def test_an_exception_and_its_input_at_once(tmp_path: Path) -> None:
    axes = constant("axes", np.array([0]))
    both = chain(node("ReduceSum", ("x", "axes"), ("y",), axes=[1]), initializers=(axes,))
    with raises(UnsupportedOperator, "(ReduceSum)", "'axes' is an attribute and input 1 as well"):
        infer(tmp_path, both)
    infer(tmp_path, chain(node("ReduceSum", ("x", ""), ("y",), axes=1)))
    infer(tmp_path, chain(node("Mul", ("x", "x"), ("y",), description="a note beside two inputs")))


def test_activation_of_a_file_changes_nothing(tmp_path: Path) -> None:
    """A file cannot set the activation of Add, Conv and Gemm, nor their extra inputs: fusion alone does."""
    with raises(UnsupportedOperator, "(Add)", "attribute 'activation' is unknown"):
        infer(tmp_path, chain(node("Add", ("x", "x"), ("y",), activation="Relu")))
    with raises(UnsupportedOperator, "(Add)", "it has 3 inputs", "at most 2"):
        infer(tmp_path, chain(node("Add", ("x", "x", "x"), ("y",))))
    with raises(UnsupportedOperator, "(Gemm)", "it has 4 inputs", "at most 3"):
        infer(tmp_path, chain(node("Gemm", ("x", "x", "", "x"), ("y",), transB=1)))


def test_attributes_that_hold_two_things(tmp_path: Path) -> None:
    """One name twice, a reference outside of a function, two values, a kind that does not exist."""
    twice = node("Flatten", ("x",), ("y",), axis=1)
    twice.attribute.append(helper.make_attribute("axis", 0))
    with raises(UnsupportedOperator, "attribute 'axis' is given 2 times"):
        infer(tmp_path, chain(twice))
    reference = node("Flatten", ("x",), ("y",))
    reference.attribute.add(name="axis", type=AttributeProto.INT, ref_attr_name="outer")
    with raises(UnsupportedOperator, "'axis' refers to attribute 'outer' of a function, and is in none"):
        infer(tmp_path, chain(reference))
    for wrong, text in (
        (AttributeProto(name="axis", type=AttributeProto.INT, i=1, ints=[0]), "also holds a value of another kind"),
        (AttributeProto(name="axis", i=1), "kind UNDEFINED"),
    ):
        odd = node("Flatten", ("x",), ("y",))
        odd.attribute.append(wrong)
        with raises(UnsupportedOperator, "attribute 'axis'", text):
            infer(tmp_path, chain(odd))
    number = node("Constant", (), ("c",), value_float=0.5)
    number.attribute[0].t.SetInParent()
    with raises(UnsupportedOperator, "(Constant)", "attribute 'value_float'", "also holds a value of another kind"):
        infer(tmp_path, chain(number, node("Add", ("x", "c"), ("y",))))


def test_parts_that_are_not_read(tmp_path: Path) -> None:
    """Sparse initializers, training_info and quantization annotations are named, not forgotten."""
    plain = chain(node("Add", ("x", "s"), ("y",)), initializers=(constant("s", np.ones(3, np.float32)),))
    for part, name, change in (
        ("sparse initializers", "s", _with_sparse),
        ("training_info", "g", lambda m: m.training_info.add().algorithm.CopyFrom(m.graph)),
        ("quantization annotations", "s", lambda m: m.graph.quantization_annotation.add(tensor_name="s")),
        ("quantization annotations", "without name", lambda m: m.graph.quantization_annotation.add()),
    ):
        model = onnx.load(str(plain.save(tmp_path / "plain.onnx")))
        change(model)
        path = tmp_path / "network.onnx"
        path.write_bytes(model.SerializeToString())
        with raises(GraphProblem, f"the file has {part}", f" {name}\n", "try"):
            parse.read_graphs(path, None)


def _with_sparse(model: onnx.ModelProto) -> None:
    values, indices = constant("s", np.ones(1, np.float32)), constant("s_at", np.zeros(1, np.int64))
    del model.graph.initializer[:]
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))


def test_a_constant_has_one_value(tmp_path: Path) -> None:
    for attrs, text in (({"value_int": 1, "value_float": 2.0}, "it has 2 values"), ({}, "it has 0 values")):
        nodes = (node("Constant", (), ("c",), **attrs), node("Mul", ("x", "c"), ("y",)))
        with raises(UnsupportedOperator, "(Constant)", text):
            infer(tmp_path, chain(*nodes))
    evil = node("Constant", (), ("c",), value_float=2.0, domain="evil")
    with raises(UnsupportedOperator, "(Constant)", "domain 'evil'"):
        infer(tmp_path, chain(evil, node("Mul", ("x", "c"), ("y",))))


def test_custom_operators_in_either_domain(tmp_path: Path) -> None:
    """All nodes of a training case that ONNX does not have, moved to the other domain."""
    moved = [onnx.NodeProto.FromString(n.SerializeToString()) for n in TRAIN.nodes]
    for item in moved:
        if not onnx.defs.has(item.op_type):
            item.domain = "" if item.domain else "com.microsoft"
    assert Case(train=replace(TRAIN, nodes=moved)).program(tmp_path) == Case().program(tmp_path)


PREVIEW = "ai.onnx.preview.training"


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "Momentum"])
def test_two_domains_with_one_name(name: str, tmp_path: Path) -> None:
    """ONNX's training operators mean what its own evaluator computes, and not what those of other domains do."""
    operator = registry()[f"{PREVIEW}.{name}"]
    for sample in operator.samples():
        plain = file_node(operator, sample, 0)
        assert plain is not None
        own = replace(plain, op=name, domain=PREVIEW)
        model = own.model((PREVIEW, 1))
        [expected, *_] = ReferenceEvaluator(model).run(None, own.feed())
        assert_close("Adam", ours(model, own.feed(), tmp_path).astype(np.float32), np.asarray(expected))
        odd = own.model((PREVIEW, 2))
        _refused(odd, replace(own, op=operator.name), tmp_path, "version 2 of domain")


DIFFERENTIABLE = [op for op in PUBLIC if type(op).gradient is not Operator.gradient]


@pytest.mark.parametrize("operator", DIFFERENTIABLE, ids=lambda op: op.name)
def test_gradients_can_be_read_again(operator: Operator) -> None:
    """The nodes of a gradient rule can be written to a file, so they must have a form that a file may hold."""
    imports = imports_of([helper.make_opsetid(*item) for item in IMPORTS])
    for sample in operator.samples():
        step = step_of(operator, sample)
        float_inputs = [i for i, n in enumerate(step.node.inputs) if n and step.types[n].dtype == "float32"]
        for index in float_inputs:
            builder = EvaluatingBuilder(step.node, step.types, [index])
            douts = [*step.node.outputs[:1], *[""] * (len(step.node.outputs) - 1)]
            try:
                operator.gradient(step.node, douts, builder)
            except NotDifferentiable:
                continue
            for emitted in builder.written:
                if file_of(registry()[emitted.op]).custom is not None and not file_of(registry()[emitted.op]).versions:
                    versions_of(node_proto(emitted), emitted, imports)


def test_all_shared_cases_are_read(tmp_path: Path) -> None:
    """Every training case and every single operator of the reference data loads; only what nobody reads may differ."""
    if not DATA.exists():
        pytest.skip(f"reference data {DATA} is absent")
    trained = sorted((DATA / "training").rglob("*_train/network.onnx"))
    single = sorted((DATA / "operators").rglob("network.onnx"))
    assert len(trained) >= 5
    assert len(single) >= 30
    for path in trained:
        optimizer = parse.optimizer_dir(path.parent) / "network.onnx"
        check.check_program(parse.read_graphs(path, optimizer))
    for path in single:
        check.check_program(parse.read_graphs(path, None))
