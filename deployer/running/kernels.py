"""Locations of kernels' C sources: a target's own folder, the common one, or that of another package."""

from collections.abc import Iterator
from pathlib import Path

from deployer.core.errors import BuildFailed, InternalError
from deployer.core.packages import PackageProblem, kernel_folders
from deployer.core.target import TARGETS_DIR, Target, Toolchain
from deployer.kernel_variants.conditions import variants_of
from deployer.operators.base.elementwise_dsl import printed_kernels

COMMON = TARGETS_DIR / "common"


def source_folders(tools: Toolchain) -> tuple[Path, ...]:
    """The folders of a target's HAL."""
    return tuple(TARGETS_DIR / source for source in tools.sources)


def kernel_source(symbol: str, tools: Toolchain, generated: Path) -> Path:
    """The C file of a kernel: a target's own before the one for all; PackageProblem where two are for all.

    `generated` is the folder of generated files, where the one for all lies if it is printed from a formula.
    """
    own = [p for p in _own(symbol, tools) if p.is_file()]
    general = [folder / f"{symbol}.c" for folder in (COMMON / "kernels", *kernel_folders().values())]
    if symbol in printed_kernels():
        general.append(generated / f"{symbol}.c")
    shared = [p for p in general if p.is_file()]
    if len(shared) > 1:
        facts = [("files", "\n".join(map(str, shared)))]
        raise PackageProblem(f"kernel {symbol} has {len(shared)} C files", facts, "another name for one of them")
    if not own + shared:
        places = [*_own(symbol, tools), *general]
        raise BuildFailed(f"kernel {symbol} has no C file", [("looked for", ", ".join(map(str, places)))])
    return (own + shared)[0]


def function_source(symbol: str, variant: str, target: Target, tools: Toolchain, generated: Path) -> Path:
    """The C file of a kernel, or of its function for some calls; InternalError where there is none of the name."""
    if not variant:
        return kernel_source(symbol, tools, generated)
    found = next((x.source for x in variants_of(symbol, target) if x.name == variant), None)
    if found is None:
        raise InternalError(f"kernel {symbol} has no variant {variant} on target {target.name}")
    return found


def _own(symbol: str, tools: Toolchain) -> Iterator[Path]:
    """Yield the candidate paths of a file for this target alone: with the target, or in a package's HAL folder."""
    for source in source_folders(tools):
        yield source / "kernels" / f"{symbol}.c"
    for folder in kernel_folders().values():
        yield from (folder / source.name / f"{symbol}.c" for source in source_folders(tools))
