"""Prediction graphs: the model inside a training graph in inference form, over the weights that are being trained.

They stand between the training graph and the optimizer graph, so that what a pass leaves to its update is alive while
they run, or behind both. Their own values lie where those of the training graph were. A second one reads and writes the
states of the first, and its values lie where those of the first were.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from deployer.core.errors import DeployerWarning, OptionProblem, Warn
from deployer.core.ir import Graph, Node, Program, Tensor, TensorType
from deployer.core.operator import Array, operator_of, registry, training_of
from deployer.core.traits.training import Loss
from deployer.frontend import check
from deployer.frontend.dataset import Dataset
from deployer.frontend.graph_sort import live_nodes, topological
from deployer.frontend.raw_graph import DeclaredTypes, FileInput, RawGraph, Source
from deployer.operators.base.one_sample import SampleAxis
from deployer.planning.canonical.sample_places import batch_of, sample_places
from deployer.planning.frozen_part import split_frozen
from deployer.training.running import evaluation_form
from deployer.verify.program import verify_program

PREDICT, SINGLE, FEATURES = "infer", "single", "features"
"""The names of graphs beside those of training: the usual prediction, one for a single token instead of a chunk of
them, and the frozen part of a model alone.
"""
OWN = {PREDICT: "predict/", SINGLE: "single/", FEATURES: "features/"}
"""Before the names of nodes and values of such a graph, which others have as well."""
_UPDATE = "optimizer"


@dataclass(frozen=True, eq=False)
class Predictor:
    """Forward pass in a file of its own: its graph, and by its initializers the weights of the training graph.

    `single` is the graph of a single token, where `graph` is that of a chunk.
    """

    graph: RawGraph
    names: Mapping[str, str]
    single: RawGraph | None = None


def known_name(name: str) -> str:
    """The name of a tensor in the file of its graph, without what tells it apart from those of other graphs."""
    own = next((prefix for prefix in OWN.values() if name.startswith(prefix)), "")
    return name.removeprefix(own)


def with_predictor(program: Program, predictor: Predictor) -> Program:
    """The program with the predictor's graphs, as `with_graph` has them."""
    program = with_graph(program, predictor.graph, predictor.names, PREDICT)
    return with_graph(program, predictor.single, predictor.names, SINGLE) if predictor.single else program


def with_graph(program: Program, graph: RawGraph, names: Mapping[str, str], graph_name: str) -> Program:
    """The program with a graph of a file more; `names` are its weights by that graph's initializers.

    Inputs of another batch than those of the graphs before are data inputs of their own. States that a graph before it
    has as well, by name, type and first content, are shared.
    """
    graph = evaluation_form(graph)
    given = {old: new for old, new in names.items() if old in graph.constants}
    nodes = tuple(replace(n, inputs=tuple(given.get(name, name) for name in n.inputs)) for n in graph.nodes)
    weights = tuple(
        FileInput(new, DeclaredTypes(_file_type(program, new), program.tensors[new].type.shape))
        for new in given.values()
    )
    constants = {name: constant for name, constant in graph.constants.items() if name not in given}
    read = {name for node in nodes for name in node.inputs}
    inputs = tuple(x for x in (*graph.inputs, *weights) if x.name in read)
    raw = replace(graph, nodes=nodes, inputs=inputs, constants=constants)
    predicted = check.check_program(Source(raw, None), warn=lambda warning: None)
    return _joined(program, predicted, graph_name, own_inputs=True)


def after_update(program: Program, accumulate: int) -> Program:
    """The program whose predictions come behind the update, so that gradients need no memory while they run.

    OptionProblem where several passes add to the gradients of an update.
    """
    if accumulate > 1:
        facts = [("passes per update", str(accumulate))]
        hint = "leave it out, or a case with one pass per update"
        raise OptionProblem("--predict-after-update has no effect on gradients of several passes", facts, hint)
    graphs = sorted(program.graphs, key=lambda graph: graph.name in OWN)
    return replace(program, graphs=tuple(graphs))


def with_own_inputs(dataset: Dataset, program: Program) -> Dataset:
    """The dataset with the inputs of a prediction of another batch: the first samples of each pass, or all repeated.

    Inputs that training has not are zeros.
    """
    given = len(dataset.samples[0])
    own, known = program.data[given:], program.data[:given]
    names = list(map(known_name, own))
    kinds = [program.tensors[name].type for name in own]

    def filled(row: Sequence[Array], name: str, kind: TensorType) -> Array:
        return np.resize(row[known.index(name)], kind.shape) if name in known else np.zeros(kind.shape, kind.dtype)

    rows = tuple((*row, *map(partial(filled, row), names, kinds)) for row in dataset.samples)
    return replace(dataset, samples=rows) if own else dataset


def _file_type(program: Program, name: str) -> str:
    """The type that a file declares for a tensor."""
    return "float32" if program.tensors[name].type.dtype == "float32" else "int64"


def with_prediction(program: Program, train: RawGraph, output: str = "", warn: Warn = lambda warning: None) -> Program:
    """The program with a graph more, whose result is its last output, and which leaves data inputs alone.

    `train` is the training graph as its file has it, and `output` the value that is predicted, by default what the loss
    compares with its target. `warn` is told of norms that have no statistics but those of their batch. OptionProblem
    where there is no such value.
    """
    return _joined(program, prediction_program(program, train, output, warn), PREDICT)


def prediction_program(program: Program, train: RawGraph, output: str = "", warn: Warn = lambda _: None) -> Program:
    """The model inside a training graph, with the arguments of `with_prediction`, as a program of its own."""
    raw = _model(train, output or _compared(program, train), warn)
    return check.check_program(Source(raw, None), warn=lambda warning: None)


def replayed_program(
    program: Program, train: RawGraph, predicted: str | Predictor = "", warn: Warn = lambda warning: None
) -> Program:
    """The program of the head behind what is frozen, which reads latents, with a prediction and the frozen part.

    The frozen part, and the prediction of a value of the training graph, take one sample. OptionProblem where nothing
    is frozen, or several values of it are read.
    """
    if isinstance(predicted, Predictor):
        names, model = {item.name for item in predicted.graph.inputs}, None
    else:
        model = prediction_program(program, train, predicted, warn)
        names = set(model.data)
    inputs = [name for name in program.data if name in names]
    part = split_frozen(program, inputs)
    if len(part.latents) > 1:
        facts = [("latents", ", ".join(f"{latent.name} {latent.type}" for latent in part.latents))]
        hint = "freeze as many layers as give one value, such as those in front of a branch"
        raise OptionProblem("a latent replay keeps one value of a sample, and the head reads several", facts, hint)
    if model is not None:
        head = _joined(part.head, one_sample(model, inputs), PREDICT, own_inputs=True)
    else:
        assert isinstance(predicted, Predictor)
        head = with_predictor(part.head, predicted)
    return _joined(head, one_sample(part.features, inputs), FEATURES, own_inputs=True)


def one_sample(program: Program, inputs: Collection[str]) -> Program:
    """The program of one graph for one sample of its `inputs` instead of a batch; OptionProblem where a node mixes
    samples.
    """
    if batch_of(program) == 1:
        return program
    try:
        places = sample_places(program, inputs)
    except OptionProblem as problem:
        facts = [("node", problem.cause.partition(": node ")[2]), *problem.facts, ("batch", str(batch_of(program)))]
        cause = "latent replay: features and predictions of one sample cannot be taken from those of a batch"
        raise OptionProblem(cause, facts, "a case with batches of one sample") from problem
    found = {name: place for name in program.tensors if isinstance(place := places.of(name), SampleAxis)}
    tensors = {
        name: replace(tensor, type=replace(tensor.type, shape=found[name].chunk(tensor.type.shape)))
        if name in found
        else tensor
        for name, tensor in program.tensors.items()
    }
    single = replace(program, tensors=tensors)
    verify_program(single)
    return single


def _compared(program: Program, train: RawGraph) -> str:
    """Return the loss's input that is the model's output; raise OptionProblem if it is ambiguous."""
    losses = [node for node in train.nodes if node.op in registry() and operator_of(node).role(Loss)]
    own = [node for node in losses if node.outputs[0] == program.outputs[0]]
    if len(own or losses) != 1:
        facts = [("losses", ", ".join(node.name for node in losses) or "none")]
        raise OptionProblem(
            "the value that predict returns is ambiguous", facts, "--predict VALUE, by its name in the training graph"
        )
    return (own or losses)[0].inputs[0]


def _model(train: RawGraph, output: str, warn: Warn) -> RawGraph:
    """The part of a training graph that computes a value, as it is used once trained."""
    if all(output not in node.outputs for node in train.nodes):
        raise OptionProblem(f"no node of the training graph computes {output!r}", hint="--predict another VALUE")
    needed = live_nodes(topological(train), (output,), {}, lambda node: False)
    model = evaluation_form(replace(train, nodes=needed, outputs=(output,)), _renewed(train))
    nodes = live_nodes(model.nodes, (output,), {}, lambda node: False)
    mixing = [node.name for node in nodes if node.op in registry() and _mixes(node)]
    if mixing:
        cause = f"predict uses batch statistics in {len(mixing)} nodes, as the case updates no running statistics"
        warn(DeployerWarning(cause, [("nodes", ", ".join(mixing))], "a case by train-graph --running-stats"))
    read = {name for node in nodes for name in node.inputs}
    return replace(model, nodes=nodes, inputs=tuple(item for item in train.inputs if item.name in read))


def _mixes(node: Node) -> bool:
    """Whether the node takes from its batch what it would read if something renewed it."""
    return training_of(node).evaluated(node, node.inputs)[0] != node


def _renewed(train: RawGraph) -> frozenset[str]:
    """The values that nodes of a training graph overwrite."""
    known = [node for node in train.nodes if node.op in registry()]
    places = [(node, operator_of(node).inplace.values()) for node in known]
    return frozenset(node.inputs[i] for node, positions in places for i in positions if i < len(node.inputs))


def _joined(program: Program, predicted: Program, graph_name: str, own_inputs: bool = False) -> Program:
    """Both programs as one, in which data, weights and states are the same, and constants that are equal.

    Unless the prediction may have `own_inputs`, it reads what a sample of training has.
    """
    prefix = OWN[graph_name]
    names = dict(_names(program, predicted, prefix, own_inputs))
    before = tuple(graph for graph in program.graphs if graph.name != _UPDATE)
    nodes = tuple(_renamed(node, names, prefix) for node in predicted.nodes)
    added = {
        names[tensor.name]: replace(tensor, name=names[tensor.name], storage=names[tensor.storage])
        for tensor in predicted.tensors.values()
        if names[tensor.name] not in program.tensors
    }
    result = names[predicted.outputs[0]]
    if predicted.tensors[predicted.storage(predicted.outputs[0])].role != "value":
        raise OptionProblem(f"{predicted.outputs[0]!r} needs no computation", hint="--predict another VALUE")
    data = (*program.data, *(name for name, tensor in added.items() if tensor.role == "data"))
    kept = (names[name] for name in predicted.weights if names[name] in added)
    return replace(
        program,
        tensors={**program.tensors, **added},
        graphs=(*before, Graph(graph_name, nodes), *program.graphs[len(before) :]),
        data=data,
        weights=(*program.weights, *kept),
        outputs=(*program.outputs, result),
        held=data,
    )


def _names(program: Program, predicted: Program, prefix: str, own_inputs: bool) -> Iterator[tuple[str, str]]:
    """Each tensor of the graph that predicts with its name in the joint program."""
    taken = set(program.tensors)
    constants = {(t.type, t.data): t.name for t in program.tensors.values() if t.role == "constant"}
    for tensor in predicted.tensors.values():
        known = program.tensors.get(tensor.name)
        is_unknown = not own_inputs if known is None else known.role not in ("data", "weight", "constant")
        if tensor.role == "data" and is_unknown:
            hint = "--predict a VALUE that the model computes"
            raise OptionProblem(f"predict would read {tensor.name!r}, which no sample has", hint=hint)
        same = known is not None and (_is_read(tensor, known) or _equal(tensor, known))
        if not same and tensor.role == "constant" and (tensor.type, tensor.data) in constants:
            yield tensor.name, constants[tensor.type, tensor.data]
            continue
        name = tensor.name
        while not same and name in taken:
            name = prefix + name
        taken.add(name)
        yield tensor.name, name


def _is_read(tensor: Tensor, known: Tensor) -> bool:
    """Whether an input of the prediction is that of training; one of another batch size is an input of its own."""
    return tensor.role == "data" and (known.role != "data" or tensor.type == known.type)


def _equal(tensor: Tensor, known: Tensor) -> bool:
    """Whether two tensors are equal constants, or states with equal initial content."""
    is_kept = tensor.role == known.role and tensor.role in ("constant", "weight")
    return is_kept and (tensor.type, tensor.data) == (known.type, known.data)


def _renamed(node: Node, names: Mapping[str, str], prefix: str) -> Node:
    inputs, outputs = (
        tuple(names.get(name, name) for name in names_of_side) for names_of_side in (node.inputs, node.outputs)
    )
    return replace(node, name=prefix + node.name, inputs=inputs, outputs=outputs)
