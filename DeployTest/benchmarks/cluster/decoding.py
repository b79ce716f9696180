"""Cycles of a token that language models read or decode, on Siracusa under GVSoC, beside the transfer of all weights.

`python -m DeployTest.benchmarks.cluster.decoding` writes decoding.json and the table of docs/cluster.md, in some five
minutes. It needs GVSoC. The scores of all tokens have the bits of this machine's program, which the run checks.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from deployer.codegen.harness import segment_input
from deployer.core import target as targets
from deployer.core.level import L_HOME, L_INNER
from deployer.core.operator import rng
from deployer.core.plan import Options
from deployer.fitting.segments import build_segment
from deployer.lm.architecture import Architecture
from deployer.lm.decoder import Decoder, cached_program
from deployer.lm.weights import initial_weights
from deployer.running.run import run_segment
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import end, write_rows

RESULT = Path(__file__).with_name("decoding.json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
MARKS = ("<!-- decoding table -->", "<!-- end of decoding table -->")
TOKENS, CHUNK = 20, 10
CLOCK = 500
"""MHz, assumed: neither the target's file nor the simulator has the clock of the chip."""
SMALL: dict[str, Any] = {"layers": 5, "dim": 64, "heads": 8, "kv_heads": 4, "hidden": 172, "vocab": 512, "tied": True}
LARGE: dict[str, Any] = {"layers": 5, "dim": 128, "heads": 8, "kv_heads": 4, "hidden": 344, "vocab": 512, "tied": True}
MODELS = ({**SMALL, "context": 128}, {**SMALL, "context": 512}, {**LARGE, "context": 256})


@dataclass(frozen=True)
class Row:
    """Cycles per token of a model, decoded and read by chunks; of moving its weights, and all keys and values, to L1.

    What of a model does not fit L2 comes from L3.
    """

    parameters: int
    context: int
    level: str
    decoded: int
    read: int
    weights: int
    cache: int


def transfer(size: int) -> int:
    """Cycles in which the DMA engine moves so many bytes from L2 to the cores."""
    return int(targets.load("siracusa").hops[L_INNER].inward.cycles(size, 1))


def measured(fields: dict[str, Any]) -> Row:
    """Both of one model."""
    a = Architecture(**fields)
    weights, cycles = initial_weights(a, 1), []
    ids = list(map(int, rng(5).integers(0, a.vocab, TOKENS)))
    outer = a.weight_bytes + a.cache_bytes > targets.load("siracusa").levels[L_HOME].budget
    decoder = Decoder(a, weights)
    expected = [decoder.decode([number])[0] for number in ids]
    for chunk in (1, CHUNK):
        program = cached_program(a, weights, chunk, selects=chunk > 1)
        with tempfile.TemporaryDirectory() as name:
            plan = build_segment(program, Options("siracusa", outermost="L3" if outer else "L2"), Path(name))
            passes = []
            for at in range(0, TOKENS, chunk):
                last = [np.array([chunk - 1], np.int32)] if chunk > 1 else []
                passes.append([np.array([ids[at : at + chunk]], np.int32), np.array([at], np.int32), *last])
            dump, bench = run_segment(plan, Path(name), segment_input(plan, program, weights, 0, passes), 0)
        scores = np.frombuffer(dump, np.float32).reshape(-1, a.vocab)
        assert scores.tobytes() == np.array(expected[chunk - 1 :: chunk]).tobytes(), "the bits differ"
        cycles.append(int(bench["run_cycles"]) // TOKENS)
    moved = map(transfer, (a.weight_bytes, a.cache_bytes))
    return Row(a.parameters, a.context, "L2 and L3" if outer else "L2", *cycles, *moved)


def markdown(rows: Sequence[Row]) -> str:
    """A line per model, with the tokens that it decodes in a second of the assumed clock."""
    names = ("parameters", "context", "weights in", "decode a token", f"read a token, {CHUNK} at once")
    names += ("transfer of the weights", "transfer of the cache", f"tokens/s at {CLOCK} MHz")
    lines = [f"| {' | '.join(names)} |", "|---:|---:|---|---:|---:|---:|---:|---:|"]
    lines += [f"| {' | '.join(map(str, (*asdict(row).values(), per_second(row))))} |" for row in rows]
    return "\n".join(lines)


def per_second(row: Row) -> int:
    """Tokens that are decoded in a second of the assumed clock."""
    return CLOCK * 1_000_000 // row.decoded


def table() -> str:
    """The table of the committed figures."""
    return markdown([Row(**row) for row in json.loads(RESULT.read_text())["rows"]])


def main() -> int:
    """Measure all, and renew the result and the page."""
    console, found = Console(stderr=True), []
    for fields in MODELS:
        with console.status(f"dim {fields['dim']}, context {fields['context']}"):
            found.append(measured(fields))
    write_rows(RESULT, {"target": "siracusa", "tokens": TOKENS}, "gvsoc", "rows", [asdict(row) for row in found])
    print(markdown(found))
    publish(__file__, PAGE, MARKS, markdown(found))
    return 0


if __name__ == "__main__":
    end(main)
