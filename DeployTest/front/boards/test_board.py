"""The page from PyTorch to a board: its module, its program and its commands, on this machine and under QEMU."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.firmware.sources import library_rules
from deployer.sizing.boards import core_of
from DeployTest.firmware.test_library import WARNINGS, manifest, ran
from DeployTest.support.tolerances import table
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch, pytest.mark.cortex_m]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
DOCS = Path(__file__).parents[3] / "docs"
SHOWN = re.compile(r"<!-- shown: ([\w ]+) -->\n```[\w ]+\n(.*?)```\n", re.S)


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's program learns, prints under QEMU what it prints here, and its scores are PyTorch's own."""
    importlib.import_module("deployer.torch")
    needs_core("cortex-m4")
    monkeypatch.chdir(tmp_path)
    shown = dict(SHOWN.findall((DOCS / "how-to/board.md").read_text()))
    start = dict(SHOWN.findall((DOCS / "firmware.md").read_text()))["firmware start"]
    names: dict[str, Any] = {}
    exec(compile(shown["module"], "board.md", "exec"), names)
    module = names["module"]
    frozen = sum(4 * p.numel() for p in names["body"].parameters())
    assert manifest(Path("keyword"))["bytes"]["frozen"] >= frozen
    Path("start.c").write_text(start)
    Path("main.c").write_text(shown["program"])
    build, run = map(shlex.split, shown["commands"].splitlines())
    assert {*core_of("cortex-m4").flags, *library_rules().flags} <= {*build}
    ran("sh", "-c", shlex.join(build).replace("'keyword/src/*.c'", "keyword/src/*.c"))
    ran("make", "-s", "-C", "keyword")
    ran("gcc", "-std=c11", *WARNINGS, "-Ikeyword/include", "main.c", "keyword/build/libkeyword.a", "-lm", "-o", "main")
    here = ran("./main")
    assert ran(*run) == here
    losses, scores = (
        [float(line.split()[1]) for line in here.splitlines() if line.startswith(kind)] for kind in ("loss", "score")
    )
    assert losses == sorted(losses, reverse=True)
    np.testing.assert_allclose(scores, learnt(module, losses), atol=5e-5 + table()["several"]["float32"]["atol"])


def learnt(module: Any, losses: list[float]) -> Any:
    """The scores of the page's sample once PyTorch's own loop has trained the head as the program does."""
    x = (torch.arange(4 * 64) % 7 - 3).double().reshape(4, 1, 8, 8)
    one = (torch.arange(64) % 7 - 3).double().reshape(1, 1, 8, 8)
    module.double()
    head = [p for p in module.parameters() if p.requires_grad]
    assert len(head) == 2
    optimizer, theirs = torch.optim.SGD(head, lr=0.05), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), torch.full((4,), 2))
        loss.backward()
        optimizer.step()
        theirs.append(float(loss.detach()))
    np.testing.assert_allclose(losses, theirs[9::10], atol=1e-4)
    return module(one).detach().numpy()[0]
