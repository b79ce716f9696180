"""Build: the target's toolchain over generated files, kernels and HAL."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from deployer.errors import BuildFailed, OptionProblem, ToolMissing
from deployer.plan import Plan
from deployer.stages.tile import target_of
from deployer.target import TARGETS_DIR, Target, Toolchain

COMMON = TARGETS_DIR / "common"


def run(plan: Plan, directory: Path, sanitize: bool = False) -> Path:
    """Compile what `generate` wrote into `directory`; the program's path.

    Raises ToolMissing without a compiler, BuildFailed with the compiler's own words.
    """
    target = target_of(plan.options)
    tools = toolchain(target)
    program = directory / "network"
    command = [*compiler(tools), *tools.flags, *(tools.sanitize if sanitize else ())]
    folders = [directory, COMMON / "include", *(TARGETS_DIR / s for s in tools.sources)]
    command += [f"-I{folder}" for folder in folders]
    command += [str(p) for p in sources(plan, directory, tools)]
    command += ["-o", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    (directory / "build.sh").write_text(shlex.join(command) + "\n")
    if result.returncode != 0:
        facts = [("command", str(directory / "build.sh")), ("compiler", result.stderr.strip()[-3000:])]
        raise BuildFailed(f"{command[0]} refused the generated code in {directory}", facts)
    return program


def toolchain(target: Target) -> Toolchain:
    """The target's toolchain; OptionProblem where it describes a machine that only others simulate."""
    if target.toolchain is None:
        raise OptionProblem(f"target {target.name!r} has no toolchain", hint="-p host simulates its memories and clock")
    return target.toolchain


def compiler(tools: Toolchain) -> list[str]:
    """The compiler's command words: the environment's choice or the target's; ToolMissing where neither exists."""
    words = shlex.split(os.environ.get(tools.compiler_env, "")) or list(tools.compiler)
    if shutil.which(words[0]) is None:
        raise ToolMissing(
            f"compiler {words[0]!r} is not installed",
            hint=f"install it, or set {tools.compiler_env} to another",
        )
    return words


def sources(plan: Plan, directory: Path, tools: Toolchain) -> list[Path]:
    """Generated files, the plan's kernels (a target's own before the common one), runtime and HAL."""
    found = sorted(directory.glob("*.c"))
    overrides = [TARGETS_DIR / s / "kernels" for s in tools.sources]
    for symbol in sorted({s.kernel.symbol for s in plan.steps}):
        places = [folder / f"{symbol}.c" for folder in (*overrides, COMMON / "kernels")]
        existing = [p for p in places if p.is_file()]
        if not existing:
            raise BuildFailed(f"kernel {symbol} has no C file", [("looked for", ", ".join(map(str, places)))])
        found.append(existing[0])
    found += sorted((COMMON / "runtime").glob("*.c"))
    for source in tools.sources:
        found += sorted(p for p in (TARGETS_DIR / source).iterdir() if p.suffix in (".c", ".S"))
    return found
