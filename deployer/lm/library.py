"""A language model as a library of C that reads and continues texts."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

import deployer
from deployer import pipeline
from deployer.codegen.generate import rendered
from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.operator import Array
from deployer.core.plan import Options, Plan
from deployer.core.safe_text import CText, c_comment, code
from deployer.firmware.bill import check_name
from deployer.firmware.common import PlannedModel
from deployer.firmware.library import Material
from deployer.firmware.model_library import ModelMaterial
from deployer.firmware.pages import listed
from deployer.firmware.prediction import PREDICT, SINGLE, Predictor, with_graph
from deployer.firmware.sources import library_rules
from deployer.firmware.steps import ONCE
from deployer.fitting.engine import evaluated_program
from deployer.fitting.runs.run_files import RunCase
from deployer.frontend import parse
from deployer.frontend.raw_graph import RawGraph
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.architecture import Architecture
from deployer.lm.cached import BEGIN, LAST, TOKENS, cached_model
from deployer.lm.decoder import check_ids
from deployer.lm.graph import save_model
from deployer.lm.model import shapes
from deployer.lm.training import RunStart
from deployer.planning.plan_choice import Progress, silent
from deployer.sizing.needs import material, model_material
from deployer.text.c_tokenizer import CTokenizer
from deployer.text.sampling import NEEDED, CSampler
from deployer.text.tokenizer import Tokenizer
from deployer.training.samples import npz_bytes

Made = TypeVar("Made", bound=PlannedModel)


@dataclass(frozen=True)
class Example:
    """The example of a library: it goes on with a prompt, a text or ids, for some tokens."""

    prompt: str | Sequence[int] = ""
    tokens: int = 20


@dataclass(frozen=True)
class ReaderView:
    """A function that reads tokens by a program of the model: up to `most` of each sequence, and the program's names.

    `last` is the function of the input that says whose scores are returned, if there is one.
    """

    number: int
    name: CText
    purpose: CText
    most: CText
    tokens: CText
    predict: CText
    output: CText
    last: tuple[CText, ...]


@dataclass(frozen=True)
class LanguageView:
    """All that the templates of the language interface print.

    The first of the `readers` reads chunks, the last single tokens; they are one if a chunk is a token. The first costs
    less for `least` tokens of a text, or more. One of `tokenizer` and `tokenless` has an element: whether the example's
    prompt is bytes of a text, or ids. A text ends where `end` is drawn. `adapted` has an element where a program
    may replace an adapter.
    """

    name: CText
    upper: CText
    title: CText
    provenance: CText
    vocab: int
    context: int
    sequences: int
    chunk: int
    least: int
    readers: tuple[ReaderView, ...]
    prompt: tuple[CText, ...]
    prompt_count: int
    tokens: int
    end: int
    tokenizer: tuple[int, ...]
    tokenless: tuple[int, ...]
    adapted: tuple[int, ...]

    def files(self) -> dict[str, str]:
        """The interface, its source and an example by their paths in the library."""
        return {
            f"include/{self.name}_language.h": rendered("firmware/language.h", self),
            f"src/{self.name}_language.h": _forwards(f"{self.name}_language.h"),
            f"src/{self.name}_language.c": rendered("firmware/language.c", self),
            "examples/main.c": rendered("firmware/language_main.c", self),
        }

    @property
    def whole(self) -> ReaderView:
        """The function that reads chunks."""
        return self.readers[0]

    @property
    def single(self) -> ReaderView:
        """The function that reads single tokens."""
        return self.readers[-1]

    @property
    def readme(self) -> str:
        """A section on the interface."""
        return rendered("firmware/language_README.md", self)


def _forwards(header: str) -> str:
    """A header beside the sources, for build tools that look there."""
    return f'#include "../include/{header}"\n'


def _split(files: Mapping[str, str]) -> dict[str, str]:
    """Headers that users include, and sources, by their paths in a library."""
    found = dict[str, str]()
    for name, text in files.items():
        is_header = name.endswith(".h")
        found |= {f"include/{name}": text, f"src/{name}": _forwards(name)} if is_header else {f"src/{name}": text}
    return found


def language_view(
    architecture: Architecture,
    name: str,
    sequences: int,
    chunk: int,
    example: Example,
    tokenizer: Tokenizer | None,
    adapters: LowRank | None = None,
) -> LanguageView:
    """The interface of a library, whose example has a prompt of text if there is a tokenizer, else of ids.

    DatasetMismatch for a prompt that is empty, whose ids are none of the vocabulary, or that fills the context.
    """
    a, known = architecture, check_name(name)
    ids = example.prompt if tokenizer is None else [tokenizer.end, *tokenizer.encode(_text(example.prompt))]
    ids = [int(number) for number in ids]
    check_ids(ids, a.vocab, "the prompt")
    if not 0 < len(ids) <= a.context:
        facts = [("tokens", str(len(ids))), ("context", str(a.context))]
        raise DatasetMismatch("the prompt does not fit the context", facts, f"1 to {a.context} tokens")
    numbers = ids if tokenizer is None else list(_text(example.prompt).encode()) or [0]
    return LanguageView(
        name=known,
        upper=code(known.upper()),
        title=c_comment(f"{known}: a language model that reads and continues texts"),
        provenance=c_comment(f"Generated by deployer {deployer.__version__}. Do not edit."),
        vocab=a.vocab,
        context=a.context,
        sequences=sequences,
        chunk=chunk,
        least=1,
        readers=_readers(known, chunk),
        prompt=listed([str(number) for number in numbers]),
        prompt_count=len(ids) if tokenizer is None else len(_text(example.prompt).encode()),
        tokens=example.tokens,
        end=-1 if tokenizer is None else tokenizer.end,
        tokenizer=ONCE if tokenizer else (),
        tokenless=() if tokenizer else ONCE,
        adapted=ONCE if adapters else (),
    )


def _readers(name: CText, chunk: int) -> tuple[ReaderView, ...]:
    """The functions that read tokens: of chunks, and of single tokens where chunks have more."""
    upper = name.upper()
    whole = ReaderView(
        number=0,
        name=code("read_chunk"),
        purpose=code("up to a chunk of each sequence"),
        most=code(f"{upper}_CHUNK"),
        tokens=code(f"{name}_input_{TOKENS}"),
        predict=code(f"{name}_predict"),
        output=code(f"{name}_output"),
        last=(code(f"{name}_input_{LAST}"),) if chunk > 1 else (),
    )
    single = ReaderView(
        number=1,
        name=code("read_single"),
        purpose=code("up to one token of each sequence"),
        most=code("1u"),
        tokens=code(f"{name}_input_{SINGLE}_{TOKENS}"),
        predict=code(f"{name}_predict_{SINGLE}"),
        output=code(f"{name}_{SINGLE}_output"),
        last=(),
    )
    return (whole, single) if chunk > 1 else (whole,)


def _text(prompt: str | Sequence[int]) -> str:
    if not isinstance(prompt, str):
        raise OptionProblem("the prompt is ids, and the library has a tokenizer", hint="a text")
    return prompt


def language_material(
    architecture: Architecture,
    weights: Mapping[str, Array],
    name: str,
    sequences: int = 1,
    chunk: int = 1,
    tokenizer: Tokenizer | None = None,
    example: Example | None = None,
    progress: Progress = silent,
    adapters: LowRank | None = None,
) -> ModelMaterial:
    """The inputs of generating a library that only predicts, with weights as constants.

    It reads texts of `sequences` at once, `chunk` tokens at a time or one by one, draws tokens, and with a tokenizer
    turns texts into ids. By default the example goes on with the begin of a document, or with id 0. Weights of
    `adapters` are no constants: a program may replace them.
    """
    known = example or Example("" if tokenizer else (0,))
    view = language_view(architecture, name, sequences, chunk, known, tokenizer, adapters)
    model = cached_model(architecture, weights, chunk, sequences, chunk > 1, adapters)
    own = adapters.shapes(shapes(architecture)) if adapters else {}
    sample: dict[str, Array] = {TOKENS: np.zeros((sequences, chunk), np.int64), BEGIN: np.zeros(sequences, np.int32)}
    sample |= {LAST: np.zeros(sequences, np.int32)} if chunk > 1 else {}
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        folder = Path(scratch) / view.name
        folder.mkdir()
        save_model(model, folder / "network.onnx")
        (folder / "inputs.npz").write_bytes(npz_bytes(sample))
        case = pipeline.load_inference_case(folder)
        if own:
            graph = parse.read_graphs(folder / "network.onnx", None).main
            case = replace(case, program=evaluated_program(graph, list(own)))
    if chunk > 1:
        single = _read(architecture, weights, 1, sequences, adapters)
        program = with_graph(case.program, single, {name: name for name in own}, SINGLE)
        blank = {name: np.zeros(program.tensors[name].type.shape, np.int64) for name in program.data}
        case = replace(case, program=program, inputs={**blank, **case.inputs})
    first = {name: np.asarray(weights[name], np.float32) for name in own}
    made = model_material(case, view.name, Options(target=library_rules().target), progress, first)
    return _with_text(made, view, tokenizer)


def trainer_material(
    architecture: Architecture,
    start: RunStart,
    run: RunCase,
    name: str,
    sequences: int = 1,
    chunk: int = 1,
    tokenizer: Tokenizer | None = None,
    example: Example | None = None,
    progress: Progress = silent,
) -> Material:
    """The inputs of generating a library that trains on as a run did, and reads and continues texts with what it has.

    Both share the weights' memory; those that the run did not train are what it began with, at its `start`. Other
    arguments are those of `language_material`.
    """
    known = example or Example("" if tokenizer else (0,))
    view = language_view(architecture, name, sequences, chunk, known, tokenizer, start.adapters)
    first, single = _read(architecture, start.weights, chunk, sequences, start.adapters), None
    if chunk > 1:
        single = _read(architecture, start.weights, 1, sequences, start.adapters)
    predictor = Predictor(first, run.names, single)
    options = Options(target=library_rules().target)
    return _with_text(material(run.case, view.name, options, predictor, progress=progress), view, tokenizer)


def _read(
    architecture: Architecture, weights: Mapping[str, Array], chunk: int, sequences: int, adapters: LowRank | None
) -> RawGraph:
    """The graph of a chunk."""
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        path = Path(scratch) / "cached.onnx"
        save_model(cached_model(architecture, weights, chunk, sequences, chunk > 1, adapters), path)
        return parse.read_graphs(path, None).main


def least_tokens(plan: Plan, chunk: int) -> int:
    """The fewest tokens for which the program of a chunk costs less than as many runs of that of one token.

    Costs are the plan's. A whole chunk is read by its program, whatever it costs.
    """
    if SINGLE not in plan.graphs:
        return 1
    return min(chunk, plan.cycles(PREDICT) // plan.cycles(SINGLE) + 1)


def _with_text(made: Made, view: LanguageView, tokenizer: Tokenizer | None) -> Made:
    """The material with the language interface, its sampler, and a tokenizer if there is one."""
    view = replace(view, least=least_tokens(made.plan, view.chunk))
    beside = _split(CSampler(view.name).files) | (
        _split(CTokenizer(tokenizer, f"{view.name}_text").files) if tokenizer else {}
    )
    return replace(made, beside={**view.files(), **beside}, needed=NEEDED, readme=view.readme)
