"""Networks drawn by seed from the families of models, planned by this checkout and by another one."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from DeployTest.models import autoencoder, deep_autoencoder, dscnn, resnet8, transformer

HERE = Path(__file__).resolve()
ROOT, PLANNED = HERE.parents[2], HERE.with_name("planned.py")
SEEDS = range(10)
TURNS = 2
"""Each checkout plans a network so often, in turns; the least of its seconds counts."""


@dataclass(frozen=True)
class Drawn:
    """A network and its budgets; an `l2` of 0 leaves L2 as it is and nothing further out."""

    make: Callable[..., Path]
    words: dict[str, Any]
    l1: int
    l2: int

    @property
    def name(self) -> str:
        """The family, its parameters and the budgets."""
        words = " ".join(f"{key}={value}" for key, value in sorted(self.words.items()))
        return f"{self.make.__module__.rpartition('.')[2]} {words}, {self.l1} and {self.l2} B"


def drawn(seed: int) -> Drawn:
    """The network of a seed."""
    draw = np.random.default_rng(seed)

    def one(*values: int) -> int:
        return int(draw.choice(values))

    size = {"batch": one(1, 2, 4), "seed": seed}
    width, hidden = one(32, 48, 64), one(64, 128)
    encoder = {"layers": one(1, 2, 3), "tokens": one(16, 32), "width": width, "hidden": hidden, "seed": seed}
    families: list[tuple[Callable[..., Path], dict[str, Any], int]] = [
        (autoencoder.generate, size, 60_000),
        (deep_autoencoder.generate, size, 400_000),
        (dscnn.generate, {"batch_norm": bool(one(0, 1)), "samples": 1, "seed": seed}, 300_000),
        (resnet8.generate, {"blocks": one(1, 2, 3), "samples": 1, "seed": seed}, 400_000),
        (transformer.generate, encoder, 200_000),
    ]
    make, words, l2 = families[one(*range(len(families)))]
    return Drawn(make, words, one(12_000, 24_000, 64_000, 128_000), one(0, l2))


def planned(case: Path, network: Drawn, checkout: Path) -> dict[str, Any]:
    """The figures of a case that another process plans with the code of a checkout."""
    words = [sys.executable, str(PLANNED), str(case), str(network.l1), str(network.l2)]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    found = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        return {"fault": found.stderr.strip().splitlines()[-1:]}
    figures: dict[str, Any] = json.loads(found.stdout)
    return figures


def least(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The run with the fewest seconds."""
    return min(runs, key=lambda run: run.get("seconds", 0.0))


def compare(other: Path) -> int:
    """Print both checkouts' figures of each network; 1 where this one's plan takes more cycles or there is none."""
    worse = 0
    for seed in SEEDS:
        network = drawn(seed)
        with tempfile.TemporaryDirectory() as name:
            case = network.make(Path(name) / "case", **network.words)
            turns = [[planned(case, network, checkout) for checkout in (other, ROOT)] for _ in range(TURNS)]
        before, after = (least([turn[i] for turn in turns]) for i in (0, 1))
        same = "the same plan" if before.get("digest") == after.get("digest") else "another plan"
        worse += before.get("cycles", 0) < after.get("cycles", 0) or ("fault" in after and "fault" not in before)
        print(f"{seed} {network.name}: {before} -> {after}, {same}", flush=True)
    return int(worse > 0)
