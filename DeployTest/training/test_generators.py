"""Command lines of the model generators: every option reaches the case that they write."""

import inspect
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from DeployTest.models.parts import generator

pytestmark = [pytest.mark.host, pytest.mark.training]
MODELS = sorted(path.stem for path in Path(generator.__file__).parents[1].glob("*.py") if "main(" in path.read_text())
OPTIONS = {"--batch-size": "2", "--accumulate-grad-batches": "3", "--n-batches": "6", "--samples": "5", "--seed": "7"}


@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["defaults", "options"])
@pytest.mark.parametrize("name", MODELS)
def test_options_reach_the_case(
    name: str, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each generator writes its model, and builds the training graph with the numbers of its command line."""
    asked: list[inspect.BoundArguments] = []
    signature = inspect.signature(generator.build_train_graph)

    def record(*args: Any, **keywords: Any) -> SimpleNamespace:
        asked.append(signature.bind(*args, **keywords))
        return SimpleNamespace(train=tmp_path)

    monkeypatch.setattr(generator, "build_train_graph", record)
    words = [word for pair in options.items() for word in pair]
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path / "out"), *words])
    runpy.run_module(f"DeployTest.models.{name}", run_name="__main__")
    [case] = asked
    if options:
        assert (case.arguments["n_accum"], case.arguments["n_batches"]) == (3, 6)
        (model,) = (tmp_path / "out").glob("*.onnx")
        batches = {value.type.tensor_type.shape.dim[0].dim_value for value in onnx.load(model).graph.input}
        tables = case.arguments.get("data") or {}
        samples = {len(table) for table in tables.values()} or {case.arguments["samples"]}
        assert (batches, samples) == ({2}, {5})
