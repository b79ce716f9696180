"""A language model as a library of C: it goes on with a text as the decoder of Python does, in every bit."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.errors import DatasetMismatch
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.firmware.prediction import PREDICT, SINGLE
from deployer.firmware.sources import library_rules
from deployer.fitting.runs.run_files import read_run
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.cached import BEGIN, LAST, TOKENS, cache_names, cached_model
from deployer.lm.decoder import Decoder
from deployer.lm.evaluation import continuation
from deployer.lm.folder import new_model
from deployer.lm.graph import save_model
from deployer.lm.library import Example, language_material, trainer_material
from deployer.lm.model import parameter_shapes, shapes
from deployer.lm.presets import preset
from deployer.lm.training import read_start
from deployer.sizing.boards import CORES, core_of
from deployer.sizing.emulated import compile_words, link_words, run_program
from deployer.sizing.library_folder import write_library
from deployer.sizing.needs import model_material
from deployer.text.bpe import ByteTokenizer
from deployer.text.sampling import Sampler
from deployer.text.stories import stories
from DeployTest.lm.test_decoder import model, text
from DeployTest.support.building.command_line import deployer
from DeployTest.targets.simulators import needs_core

CHECKS = "-std=c11 -O1 -g -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror -fsanitize=address,undefined"
PROGRAM = """
#include "story_language.h"
#include <stdio.h>
static story_language_t language;
static void print(uint32_t sequence) {
    const float *scores = story_scores(&language, sequence);
    for (uint32_t i = 0; i < STORY_VOCABULARY; i++) {
        union { float value; uint32_t bits; } word = {scores[i]};
        printf("%%08x ", (unsigned)word.bits);
    }
    printf("\\n");
}
int main(void) {
    static const int32_t first[] = {%s}, second[] = {%s}, wrong[] = {1, STORY_VOCABULARY};
    if (story_decode(&language, first) != STORY_ERROR_STRUCT) return 1;
    if (story_language_init(&language)) return 2;
    if (story_prefill(&language, 0, first, 11)) return 3;
    print(0);
    if (story_prefill(&language, 1, second, 4)) return 4;
    print(1);
    if (story_prefill(&language, 0, wrong, 2) != STORY_ERROR_INPUT) return 5;
    if (story_prefill(&language, 2, first, 1) != STORY_ERROR_INPUT) return 6;
    if (story_prefill(&language, 0, first, 60) != STORY_ERROR_INPUT) return 7;
    if (story_prefill(&language, 0, first, 0) != STORY_ERROR_INPUT) return 8;
    if (story_prefill(&language, 0, 0, 1) != STORY_ERROR_POINTER) return 9;
    if (story_length(&language, 0) != 11 || story_length(&language, 1) != 4 || story_length(&language, 2)) return 10;
    const int32_t next[] = {first[11], second[4]};
    if (story_decode(&language, next)) return 11;
    print(0), print(1);
    if (story_reset(&language, 1) || story_prefill(&language, 1, first, 11)) return 12;
    print(1);
    return 0;
}
"""


@pytest.mark.parametrize("chunk", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_it_has_the_bits_of_the_decoder(chunk: int, tmp_path: Path) -> None:
    """Two sequences of different lengths, errors in between, and a sequence that begins anew."""
    architecture, weights = model()
    first, second = text(architecture, 60, 1), text(architecture, 20, 2)
    made = language_material(architecture, weights, "story", 2, chunk)
    folder = write_library(made, tmp_path / "story").folder
    numbers = (", ".join(map(str, ids)) for ids in (first, second))
    (tmp_path / "main.c").write_text(PROGRAM % tuple(numbers))
    flags = (folder / "Makefile").read_text()
    assert "-ffp-contract=off" in flags
    sources = [tmp_path / "main.c", *sorted((folder / "src").glob("*.c"))]
    command = ["gcc", *CHECKS.split(), f"-I{folder / 'include'}", *sources, "-lm", "-o", tmp_path / "main"]
    subprocess.run(command, check=True)
    run = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run
    found = [np.array([int(word, 16) for word in line.split()], np.uint32) for line in run.stdout.splitlines()]
    decoder = Decoder(architecture, weights, sequences=2, chunk=3)
    expected = [decoder.prefill([first[:11], []])[0], decoder.prefill([[], second[:4]])[1]]
    expected += list(decoder.decode([first[11], second[4]]))
    decoder.reset(1)
    expected.append(decoder.prefill([[], first[:11]])[1])
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]


COUNTED = """
#include "story_language.h"
#include <stdio.h>
static story_language_t language;
static unsigned chunks, singles;
story_status_t __real_story_predict(story_t *model);
story_status_t __real_story_predict_single(story_t *model);
story_status_t __wrap_story_predict(story_t *model) { return chunks++, __real_story_predict(model); }
story_status_t __wrap_story_predict_single(story_t *model) { return singles++, __real_story_predict_single(model); }
int main(void) {
    static const int32_t ids[STORY_CONTEXT] = {0};
    if (story_language_init(&language)) return 1;
    for (uint32_t count = 1; count <= 2u * STORY_CHUNK; count++) {
        chunks = singles = 0;
        if (story_reset(&language, 0) || story_prefill(&language, 0, ids, count)) return 2;
        printf("%u %u\\n", chunks, singles);
    }
    chunks = singles = 0;
    if (story_decode(&language, ids)) return 3;
    printf("%u %u\\n", chunks, singles);
    return 0;
}
"""


@pytest.mark.slow
def test_each_text_is_read_by_the_cheaper_program(tmp_path: Path) -> None:
    """Whole chunks by their program, the rest by what costs less together, and a token by its own.

    Both programs have their caches and constants once, and their other tensors in the same memory.
    """
    chunk, (architecture, weights) = 8, model()
    made = language_material(architecture, weights, "story", chunk=chunk)
    library = write_library(made, tmp_path / "story")
    folder, ids = library.folder, text(architecture, chunk)
    scores = library.predict([ids], np.zeros(1, np.int32), np.array([chunk - 1], np.int32))
    assert scores.tobytes() == Decoder(architecture, weights, chunk=3).prefill(ids).tobytes()
    whole, single = (sum(step.cycles for step in made.plan.steps if step.graph == graph) for graph in (PREDICT, SINGLE))
    assert single < whole < chunk * single, "both are of use"
    (tmp_path / "main.c").write_text(COUNTED)
    sources = [tmp_path / "main.c", *sorted((folder / "src").glob("*.c"))]
    wrapped = "-Wl,--wrap=story_predict,--wrap=story_predict_single"
    command = ["gcc", *CHECKS.split(), wrapped, f"-I{folder / 'include'}", *sources, "-lm", "-o", tmp_path / "main"]
    subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    *read, decoded = [tuple(map(int, line.split())) for line in printed.splitlines()]
    for count, (chunks, singles) in enumerate(read, 1):
        full, rest = divmod(count, chunk)
        ways = {(full, rest): rest * single, (full + (rest > 0), 0): whole if rest else 0}
        assert ways[chunks, singles] == min(ways.values()), count
    assert decoded == (0, 1)

    (tmp_path / "case").mkdir()
    save_model(cached_model(architecture, weights, chunk, selects=True), tmp_path / "case/network.onnx")
    zeros = {TOKENS: np.zeros((1, chunk), np.int64), **dict.fromkeys((BEGIN, LAST), np.zeros(1, np.int64))}
    np.savez(tmp_path / "case/inputs.npz", **zeros)
    case = pipeline.load_inference_case(tmp_path / "case")
    alone = model_material(case, "story", Options(target=library_rules().target))
    inputs = sum(made.program.tensors[name].type.bytes for name in made.program.data)
    assert 0 <= 4 * (made.layout.words - alone.layout.words) <= inputs + 16 * len(made.program.data)
    assert made.layout.frozen_words == alone.layout.frozen_words
    assert made.program.weights == alone.program.weights


@pytest.mark.slow
@pytest.mark.cortex_m
def test_a_core_has_the_bits_of_this_machine(tmp_path: Path) -> None:
    """Chunks and single tokens of two sequences under QEMU."""
    needs_core("cortex-m4")
    core, (architecture, weights) = core_of("cortex-m4"), model()
    ids = (", ".join(map(str, text(architecture, count, seed))) for count, seed in ((60, 1), (20, 2)))
    (tmp_path / "main.c").write_text(PROGRAM % tuple(ids))
    folder = write_library(language_material(architecture, weights, "story", 2, 4), tmp_path / "story").folder
    sources = [tmp_path / "main.c", *sorted((folder / "src").glob("*.c"))]
    here = ["gcc", *CHECKS.split(), f"-I{folder / 'include'}", *sources, "-lm", "-o", tmp_path / "main"]
    there = [*compile_words(core), f"-I{folder / 'include'}", *sources, CORES / "start.c", *link_words(core)]
    for command in (here, [*there, "-o", tmp_path / "program.elf"]):
        subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert run_program(core, tmp_path / "program.elf") == printed


@pytest.mark.slow
def test_the_example_goes_on_with_the_prompt(tmp_path: Path) -> None:
    """The most probable token each time, as its own build prints them."""
    architecture, weights = model()
    prompt = text(architecture, 9)
    made = language_material(architecture, weights, "story", example=Example(prompt, 12))
    folder = write_library(made, tmp_path).folder
    subprocess.run(["make", "-s", "-C", folder], check=True)
    run = subprocess.run([folder / "build" / "story_example"], capture_output=True, text=True, check=True)
    decoder, expected = Decoder(architecture, weights), list[int]()
    scores = decoder.prefill(prompt)
    for _ in range(12):
        expected.append(int(scores[0].argmax()))
        scores = decoder.decode(expected[-1:])
    assert run.stdout.split()[1:] == list(map(str, expected))


@pytest.mark.parametrize("prompt", [pytest.param("", marks=pytest.mark.slow), "Once upon a time, \0\n"])
def test_the_example_turns_text_into_tokens(prompt: str, tmp_path: Path) -> None:
    """As Python does; what it prints is the text of the ids that it drew."""
    tokenizer = ByteTokenizer()
    architecture, weights = model(vocab=tokenizer.vocab)
    made = language_material(architecture, weights, "story", tokenizer=tokenizer, example=Example(prompt, 12))
    folder = write_library(made, tmp_path).folder
    subprocess.run(["make", "-s", "-C", folder], check=True)
    run = subprocess.run([folder / "build" / "story_example"], capture_output=True, check=True)
    text, _, line = run.stdout.rstrip(b"\n").rpartition(b"\nids")
    begin = [tokenizer.end, *tokenizer.encode(prompt)]
    expected = list(continuation(Decoder(architecture, weights), begin, 12, tokenizer.end, Sampler(temperature=0)))
    assert list(map(int, line.split())) == expected
    assert text == tokenizer.decode(expected)


def test_a_prompt_of_other_ids_is_refused() -> None:
    architecture, weights = model()
    with pytest.raises(DatasetMismatch, match="token 1 of the prompt is no id"):
        language_material(architecture, weights, "story", example=Example([0, 41]))


SWAPPED = """
#include "story_language.h"
#include <stdio.h>
#include <string.h>
static story_language_t language;
static float values[4096];
static int put(FILE *file) { /* weights by their names, as the adapter's file has them */
    char name[96];
    unsigned count, index;
    while (fscanf(file, "%%95s %%u", name, &count) == 2) {
        if (story_weight_index(name, &index)) return 1;
        for (unsigned i = 0; i < count; i++) {
            unsigned bits;
            if (fscanf(file, "%%x", &bits) != 1) return 2;
            memcpy(values + i, &bits, 4);
        }
        if (story_set_weight(&language.model, index, values, 4u * count + 4u) != STORY_ERROR_SIZE) return 3;
        if (story_set_weight(&language.model, index, values, 4u * count)) return 4;
    }
    return 0;
}
int main(int argc, char **argv) {
    static const int32_t text[] = {%s};
    story_weight_t info;
    if (story_set_weight(&language.model, 0, values, 4) != STORY_ERROR_STRUCT) return 1;
    if (story_language_init(&language)) return 1;
    if (story_weight_info(STORY_WEIGHTS, &info) != STORY_ERROR_INDEX) return 2;
    if (story_weight_index("model.norm.weight", &(uint32_t){0}) != STORY_ERROR_NAME) return 3;
    for (int at = 0; at < argc; at++) {
        if (at) { /* the first adapter is that of the library */
            FILE *file = fopen(argv[at], "r");
            const int failed = file ? put(file) : 9;
            if (failed) return 10 + failed;
            fclose(file);
            if (story_reset(&language, 0)) return 4;
        }
        if (story_prefill(&language, 0, text, 11) || story_decode(&language, text + 11)) return 5;
        for (uint32_t i = 0; i < STORY_VOCABULARY; i++) {
            uint32_t bits;
            memcpy(&bits, story_scores(&language, 0) + i, 4);
            printf("%%08x ", (unsigned)bits);
        }
        printf("\\n");
    }
    for (uint32_t index = 0; index < STORY_WEIGHTS; index++) {
        if (story_weight_info(index, &info)) return 6;
        if (story_get_weight(&language.model, index, values, 4u * info.count)) return 7;
        printf("%%s %%s %%08x\\n", info.name, info.shape, (unsigned)(union { float f; uint32_t u; }){values[0]}.u);
    }
    return 0;
}
"""


def hexadecimal(array: Array) -> str:
    """The bits of a float32 array."""
    return " ".join(f"{word:08x}" for word in array.reshape(-1).view(np.uint32).tolist())


@pytest.mark.parametrize("chunk", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_program_swaps_adapters(chunk: int, tmp_path: Path) -> None:
    """Two adapters in turn: each time the scores have the bits of the decoder with the same one."""
    architecture, weights = model()
    lora, known = LowRank("v_proj|down_proj", 3, 7.0, 0.5), shapes(architecture)
    draw = np.random.default_rng(4)
    first, second = ({n: draw.normal(size=s).astype(np.float32) for n, s in lora.shapes(known).items()} for _ in "ab")
    made = language_material(architecture, {**weights, **first}, "story", chunk=chunk, adapters=lora)
    library = write_library(made, tmp_path / "story").folder
    files = []
    for name, arrays in (("first", first), ("second", second)):
        lines = [f"{key} {array.size} {hexadecimal(array)}" for key, array in arrays.items()]
        files.append(tmp_path / name)
        files[-1].write_text("\n".join(lines))
    ids = text(architecture, 12, 1)
    (tmp_path / "main.c").write_text(SWAPPED % ", ".join(map(str, ids)))
    command = ["gcc", *CHECKS.split(), f"-I{library / 'include'}", tmp_path / "main.c"]
    subprocess.run([*command, *sorted((library / "src").glob("*.c")), "-lm", "-o", tmp_path / "main"], check=True)
    words = [tmp_path / "main", files[1], files[0], files[1]]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    decoder = Decoder(architecture, {**weights, **first}, chunk=3, adapters=lora)
    found = [np.array([int(word, 16) for word in line.split()], np.uint32).tobytes() for line in lines[:4]]
    expected = []
    for arrays in (first, second, first, second):
        decoder.load(arrays)
        decoder.prefill(ids[:11])
        expected.append(decoder.decode(ids[11:])[0].tobytes())
    assert found == expected
    assert len(set(expected)) == 2
    listed = {name: word for name, _, word in map(str.split, lines[4:])}
    assert listed == {name: hexadecimal(array.reshape(-1)[:1]) for name, array in second.items()}
    manifest = json.loads((library / "manifest.json").read_text())
    assert {row["name"]: tuple(row["shape"]) for row in manifest["weights"]} == lora.shapes(known)


TRAINER = """
#include "story_language.h"
#include <stdio.h>
#include <string.h>
static story_language_t language;
static float values[8192];
int main(int argc, char **argv) {
    static const int32_t text[STORY_CONTEXT + 1] = {%s};
    float loss;
    (void)argv;
    if (story_language_init(&language)) return 1;
    for (uint32_t pass = 0; pass < 2u * STORY_ACCUMULATE; pass++) {
        if (argc > 1) { /* reads and decodes in between */
            if (story_reset(&language, 0) || story_prefill(&language, 0, text, 5)) return 2;
            if (story_decode(&language, text + 5)) return 2;
        }
        memcpy(story_input_ids(&language.model), text, STORY_CONTEXT * sizeof *text);
        memcpy(story_input_labels(&language.model), text + 1, STORY_CONTEXT * sizeof *text);
        if (story_train_step(&language.model, &loss)) return 3;
        if (pass %% STORY_ACCUMULATE == STORY_ACCUMULATE - 1u && story_update(&language.model)) return 4;
    }
    story_weight_t info;
    for (uint32_t index = 0; story_weight_info(index, &info) == STORY_OK; index++) {
        if (info.is_int32) continue;
        if (story_get_weight(&language.model, index, values, info.count * 4u)) return 5;
        printf("%%s", info.name);
        for (uint32_t i = 0; i < info.count; i++) {
            uint32_t bits;
            memcpy(&bits, values + i, 4);
            printf(" %%08x", (unsigned)bits);
        }
        printf("\\n");
    }
    if (argc > 1 && (story_reset(&language, 0) || story_prefill(&language, 0, text, 9))) return 6;
    printf("scores");
    for (uint32_t i = 0; argc > 1 && i < STORY_VOCABULARY; i++) {
        uint32_t bits;
        memcpy(&bits, story_scores(&language, 0) + i, 4);
        printf(" %%08x", (unsigned)bits);
    }
    printf("\\n");
    return 0;
}
"""


@pytest.mark.parametrize(
    "part",
    [
        pytest.param([], id="all", marks=pytest.mark.slow),
        pytest.param(["--lora", "q_proj|up_proj", "--lora-rank", 2, "--lora-dropout", 0.25], id="adapters"),
        pytest.param(["--trainable", "norm"], id="norms", marks=pytest.mark.slow),
    ],
)
def test_it_goes_on_learning_between_texts(part: list[object], tmp_path: Path) -> None:
    """Decoding leaves training alone, and reads with the weights that training has left, and those that it leaves."""
    folder = tmp_path / "model"
    sizes = {"layers": 1, "dim": 16, "hidden": 24, "context": 24, "heads": 2, "kv_heads": 2}
    made = new_model(folder, {**preset("llama"), **sizes}, ByteTokenizer(), 3)
    (tmp_path / "stories.txt").write_text("\n".join(stories(3)))
    words = ["--batch-size", 1, "--accumulate-grad-batches", 2, "--n-steps", 4, "--quiet", *part]
    assert deployer("lm", "train", folder, "--text", tmp_path / "stories.txt", *words) == 0
    run = read_run(folder / "run")
    library = write_library(
        trainer_material(made.architecture, read_start(folder / "run"), run, "story", chunk=2), tmp_path / "story"
    ).folder
    ids = text(made.architecture, made.architecture.context + 1)
    (tmp_path / "main.c").write_text(TRAINER % ", ".join(map(str, ids)))
    command = ["gcc", *CHECKS.split(), f"-I{library / 'include'}", tmp_path / "main.c"]
    subprocess.run([*command, *sorted((library / "src").glob("*.c")), "-lm", "-o", tmp_path / "main"], check=True)
    plain, reading = (
        subprocess.run([tmp_path / "main", *words], capture_output=True, text=True, check=True).stdout.splitlines()
        for words in ([], ["reads"])
    )
    caches = tuple(name for layer in range(1) for name in cache_names(layer))
    assert [x for x in plain[:-1] if not x.startswith(caches)] == [x for x in reading[:-1] if not x.startswith(caches)]
    arrays = {
        name: np.array([int(word, 16) for word in words], np.uint32).view(np.float32)
        for name, *words in map(str.split, reading)
    }
    start = read_start(folder / "run")
    assert bool(start.adapters) == ("--lora" in part)
    known = parameter_shapes(made.architecture, start.adapters)
    trained = {n: arrays[new].reshape(known[n]) for n, new in run.names.items()}
    assert all((array != run.case.dataset.weights[run.names[name]]).any() for name, array in trained.items())
    assert set(trained) <= set(known)
    assert (len(trained) == len(known)) == (not part)
    decoder = Decoder(made.architecture, {**start.weights, **trained}, chunk=4, adapters=start.adapters)
    assert arrays["scores"].tobytes() == decoder.prefill(ids[:9])[0].tobytes()
