"""The protobuf and the npz reader under atheris, whose inputs follow the branches they reach: a process each."""

import importlib
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

RUNS = 20_000
"""Inputs per reader."""
READERS = ("protobuf", "npz")


def available() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def run(folder: Path, seed: int, runs: int = RUNS) -> dict[str, str]:
    """Fuzz each reader from valid files; what ended a run early, by reader. The input lies in `folder`."""
    from . import bases
    from .trial import ROOT

    findings = {}
    for reader in READERS:
        corpus = folder / f"corpus-{reader}"
        corpus.mkdir(parents=True, exist_ok=True)
        for number in range(4):
            files = bases.training(number)
            for name, data in files.items():
                if name.endswith(".onnx" if reader == "protobuf" else ".npz"):
                    (corpus / f"{number}-{name.replace('/', '-')}").write_bytes(data)
        words = [sys.executable, "-m", __name__, reader, f"-runs={runs}", f"-seed={seed}", "-timeout=20"]
        words += ["-rss_limit_mb=4096", f"-artifact_prefix={folder}/{reader}-", str(corpus)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            findings[reader] = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return findings


def reader(name: str, path: Path) -> Callable[[bytes], None]:
    """Return the function for atheris: it reads the bytes as a file and accepts a refusal; other errors escape."""
    from deployer.core.errors import UserError
    from deployer.core.files.arrays import read_npz
    from deployer.frontend.reader import read_graph

    def once(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read_npz(path) if name == "npz" else read_graph(path, "infer")
        except UserError:
            return

    return once


def main() -> None:
    """The reader is the first argument, libFuzzer's options are the others."""
    import atheris

    with atheris.instrument_imports(
        include=[*(f"deployer.frontend.{name}" for name in ("reader", "model_file", "dataset")), "deployer.core.files"]
    ):
        for module in ("deployer.frontend.reader", "deployer.frontend.dataset"):
            importlib.import_module(module)
    name = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as folder:
        atheris.Setup(sys.argv, reader(name, Path(folder) / "input"))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
