#!/usr/bin/env python3
"""The packaging check: a wheel and an editable install, each in an empty environment, compile and train a case.

Everything happens in a temporary folder, on a copy of the packages, so that no path of the checkout can help.
Exit code 0 where all of it works.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {"deployer": "deployer", **{name: f"deployer/{name}" for name in ("targets", "templates", "tilers")}}
STARTED = time.perf_counter()


def say(text: str) -> None:
    """A line with the seconds since the start."""
    print(f"[{time.perf_counter() - STARTED:5.1f} s] {text}", flush=True)


def call(*words: object, cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    """The output of a command; if it fails, the check ends with that output."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(word) for word in words]
    done = subprocess.run(
        command, cwd=cwd, env={**clean, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def empty_environment(folder: Path) -> Path:
    """The Python of a new environment without any package, not even pip."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def install(python: Path, *words: object, cwd: Path) -> None:
    """Install into an environment by the pip that runs this check, at the pinned versions."""
    pins = ["--constraint", ROOT / "requirements.txt"]
    call(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *pins, *words, cwd=cwd)


def build_wheel(checkout: Path, folder: Path) -> Path:
    """The wheel of a checkout, with every file of its packages and nothing else."""
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    call(sys.executable, "-m", "pip", "wheel", *words, checkout, cwd=folder)
    [wheel] = folder.glob("deployer-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = set()
    for source, inside in FOLDERS.items():
        files = [p for p in (ROOT / source).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        expected |= {f"{inside}/{p.relative_to(ROOT / source)}" for p in files}
    if packed != expected:
        sys.exit(f"{wheel.name}: missing {sorted(expected - packed)}, too many {sorted(packed - expected)}")
    say(f"{wheel.name}: {len(packed)} files, {wheel.stat().st_size // 1024} KB, none missing")
    return wheel


def use(python: Path, case: Path, folder: Path) -> None:
    """Compile, build, run and compare a case by an installed `deployer`, from a folder of its own."""
    folder.mkdir()
    command = python.with_name("deployer")
    call(command, "--help", cwd=folder)
    places = "import deployer.tilers, deployer.targets, deployer.templates as t; print(t.__file__)"
    say(f"templates come from {call(python, '-c', places, cwd=folder).strip()}")
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}
    stdout = call(command, "train", "-t", case, "--l1", "4000", "-o", "c", cwd=folder, environment=cache)
    marks = ("BENCH ", "Errors: 0 out of 4", "passed")
    if not all(text in stdout for text in marks):
        sys.exit(f"the run did not pass:\n{stdout}")
    say(next(line for line in stdout.splitlines() if line.startswith("BENCH")))


def main() -> int:
    """Run the check and print what was done."""
    with tempfile.TemporaryDirectory(prefix="package-") as name:
        work = Path(name)
        checkout, case = work / "checkout", work / "case"
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, checkout / file)
        call(sys.executable, "-m", "DeployTest.models.simple_mlp", case, cwd=ROOT)
        say(f"case generated in {case}")
        wheels = work / "wheels"
        wheels.mkdir()
        wheel = build_wheel(checkout, wheels)
        python = empty_environment(work / "venv")
        install(python, wheel, cwd=work)
        say("wheel and its dependencies installed in an empty environment")
        shutil.move(checkout, work / "hidden")
        use(python, case, work / "outside")
        shutil.move(work / "hidden", checkout)
        editable = empty_environment(work / "editable")
        install(editable, "setuptools", cwd=work)
        install(editable, "--no-build-isolation", "--editable", checkout, cwd=work)
        say("editable install in a second empty environment")
        use(editable, case, work / "elsewhere")
        say("the packages install and work outside the checkout")
    return 0


if __name__ == "__main__":
    sys.exit(main())
