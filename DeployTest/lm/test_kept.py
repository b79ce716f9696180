"""Programs that keep rows from pass to pass: attention over a cache gives the same bits in chunks of any size."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

from deployer import pipeline
from deployer.core.errors import GraphProblem
from deployer.core.operator import Array, rng
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.fitting.engine import FitEvaluator
from deployer.fitting.in_process import StepLibrary
from deployer.fitting.segments import build_segment

HEADS, GROUPS, ROOM, WIDTH = 4, 2, 70, 6


def attention_file(path: Path, chunk: int, sequences: int = 1, cached: bool = True) -> Path:
    """Attention of `chunk` tokens over those that were read before them, or, without a cache, causal among them."""
    shapes = {"q": (sequences, HEADS, chunk, WIDTH), **dict.fromkeys("kv", (sequences, GROUPS, chunk, WIDTH))}
    inputs = [h.make_tensor_value_info(name, T.FLOAT, shape) for name, shape in shapes.items()]
    constants, nodes = [], []
    if cached:
        inputs.append(h.make_tensor_value_info("begin", T.INT32, [sequences]))
        inputs += [
            h.make_tensor_value_info(f"cache_{name}", T.FLOAT, (sequences, GROUPS, ROOM, WIDTH)) for name in "kv"
        ]
        arrays = {
            "shape": np.array([sequences, 1, 1, 1], np.int64),
            "places": np.arange(chunk, dtype=np.int32).reshape(1, 1, chunk, 1),
            "keys": np.arange(ROOM, dtype=np.int32).reshape(1, 1, 1, ROOM),
            "seen": np.float32(0),
            "hidden": np.float32(-np.inf),
        }
        constants = [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in arrays.items()]
        nodes = [
            *(
                h.make_node("CacheUpdate", [f"cache_{n}", n, "begin"], [f"all_{n}"], domain="com.microsoft")
                for n in "kv"
            ),
            h.make_node("Reshape", ["begin", "shape"], ["first"]),
            h.make_node("Add", ["first", "places"], ["queries"]),
            h.make_node("LessOrEqual", ["keys", "queries"], ["sees"]),
            h.make_node("Where", ["sees", "seen", "hidden"], ["mask"]),
        ]
    operands = ["q", "all_k", "all_v", "mask"] if cached else ["q", "k", "v"]
    attrs = {} if cached else {"is_causal": 1}
    nodes.append(h.make_node("ScaledDotProductAttention", operands, ["y"], domain="com.microsoft", **attrs))
    graph = h.make_graph(nodes, "attention", inputs, [h.make_tensor_value_info("y", T.FLOAT, shapes["q"])], constants)
    imports = [h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)]
    onnx.save(h.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


class Chunks:
    """The program of such a file in this process, chunk by chunk."""

    def __init__(self, path: Path, folder: Path) -> None:
        program = pipeline.load_inference_case(path).program
        self.library = StepLibrary(program, Options(native().name), folder)
        self.shape = program.tensors["y"].type.shape

    def result(self, *arrays: Array) -> Array:
        """The attention of a chunk."""
        library, given = self.library, [np.ascontiguousarray(x) for x in arrays]
        pointers = (ctypes.c_void_p * len(given))(*(x.ctypes.data for x in given))
        assert not library.run(ctypes.addressof(pointers), 0, 0, ctypes.addressof(library.loss))
        return library.tensors[library.plan.storage_of["y"]].reshape(self.shape).copy()


def drawn(tokens: int, sequences: int = 1) -> list[Array]:
    r = rng(7)
    return [r.normal(size=(sequences, heads, tokens, WIDTH)).astype(np.float32) for heads in (HEADS, GROUPS, GROUPS)]


def in_chunks(chunks: Chunks, arrays: Sequence[Array], size: int) -> Array:
    tokens = arrays[0].shape[2]
    parts = [
        chunks.result(*(x[:, :, i : i + size] for x in arrays), np.full(len(arrays[0]), i, np.int64))
        for i in range(0, tokens, size)
    ]
    return np.concatenate(parts, 2)


@pytest.mark.parametrize("tokens", [66, 70])
def test_chunks_of_all_sizes_give_the_bits_of_causal_attention(tmp_path: Path, tokens: int) -> None:
    arrays = drawn(tokens)
    whole = Chunks(attention_file(tmp_path / "whole.onnx", tokens, cached=False), tmp_path / "whole").result(*arrays)
    for size in (1, tokens // 2, tokens):
        chunks = Chunks(attention_file(tmp_path / f"{size}.onnx", size), tmp_path / f"{size}")
        assert in_chunks(chunks, arrays, size).tobytes() == whole.tobytes()
        chunks.library.load({})
        assert in_chunks(chunks, arrays, size).tobytes() == whole.tobytes()


def test_sequences_of_different_lengths_do_not_see_each_other(tmp_path: Path) -> None:
    arrays, (q, k, v) = drawn(9, 2), drawn(9, 2)
    alone = in_chunks(Chunks(attention_file(tmp_path / "one.onnx", 1), tmp_path / "one"), [x[:1] for x in arrays], 1)
    both = Chunks(attention_file(tmp_path / "two.onnx", 1, sequences=2), tmp_path / "two")
    for i in range(9):  # the second sequence begins anew after four tokens
        own = [np.stack([x[0, :, i : i + 1], x[1, :, i : i + 1]]) for x in (q, k, v)]
        y = both.result(*own, np.array([i, i % 4], np.int64))
        assert y[0].tobytes() == np.ascontiguousarray(alone[0, :, i : i + 1]).tobytes()


@pytest.mark.host
def test_segments_keep_rows_from_pass_to_pass(tmp_path: Path) -> None:
    arrays = drawn(5)
    path = attention_file(tmp_path / "one.onnx", 1)
    expected = in_chunks(Chunks(path, tmp_path / "one"), arrays, 1)
    program = pipeline.load_inference_case(path).program
    plan = build_segment(program, Options("host"), tmp_path / "host")
    passes = [[*(x[:, :, i : i + 1] for x in arrays), np.array([i], np.int32)] for i in range(5)]
    outputs = FitEvaluator(program, plan, tmp_path / "host").outputs({}, passes)
    assert np.concatenate(list(outputs), 2).tobytes() == expected.tobytes()


def test_a_cache_that_is_a_constant_is_refused(tmp_path: Path) -> None:
    path = attention_file(tmp_path / "one.onnx", 1)
    model = onnx.load(path)
    shape = (1, GROUPS, ROOM, WIDTH)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(shape, np.float32), "cache_k"))
    onnx.save(model, path)
    with pytest.raises(GraphProblem, match="overwrites 'cache_k', which is a constant"):
        pipeline.load_inference_case(path)


@pytest.mark.host
@pytest.mark.parametrize(
    ("budgets", "level", "slots"),
    [({"L1": 5_000}, "L2", 0), ({"L1": 5_000, "L2": 6_000}, "L3", 1)],
    ids=["next level", "outermost level"],
)
def test_rows_are_written_where_the_cache_lies(budgets: dict[str, int], level: str, slots: int, tmp_path: Path) -> None:
    """Without moving the cache, unless it lies beyond the level that kernels reach; the bits are those of one level."""
    arrays = drawn(5)
    path = attention_file(tmp_path / "one.onnx", 1)
    expected = in_chunks(Chunks(path, tmp_path / "one"), arrays, 1)
    program = pipeline.load_inference_case(path).program
    plan = build_segment(program, Options("host", budgets=budgets, outermost="L3"), tmp_path / "host")
    levels = {home.storage: home.level for home in plan.homes}
    updates = [step.operands[0] for step in plan.steps if step.op == "CacheUpdate"]
    assert level in [levels[o.storage] for o in updates]
    assert {o.slots for o in updates if levels[o.storage] == level} == {slots}
    passes = [[*(x[:, :, i : i + 1] for x in arrays), np.array([i], np.int32)] for i in range(5)]
    outputs = FitEvaluator(program, plan, tmp_path / "host").outputs({}, passes)
    assert np.concatenate(list(outputs), 2).tobytes() == expected.tobytes()
