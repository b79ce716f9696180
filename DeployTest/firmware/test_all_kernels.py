"""All kernels as a library has them: each source compiles without a warning, with its own file names and types."""

from pathlib import Path

import pytest

from deployer.core import target as targets
from deployer.core.operator import registry
from deployer.firmware.common import NEEDED, library_tools
from deployer.firmware.sources import kernel_sources, library_rules, source_proof
from DeployTest.firmware.test_library import WARNINGS, ran

pytestmark = [pytest.mark.host, pytest.mark.kernels]


@pytest.mark.slow
def test_all_kernels_compile(tmp_path: Path) -> None:
    """Files and linked functions carry the prefix, and each source has its proof, also where macros make names."""
    rules = library_rules()
    kernels = {operator.kernel.symbol: operator.kernel for operator in registry().values() if operator.kernel}
    files = kernel_sources(list(kernels.values()), library_tools(targets.load(rules.target)), "head", NEEDED)
    assert all(name.startswith("head_") for name in files)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    sources = [tmp_path / name for name in files if name.endswith(".c")]
    assert {f"head_{symbol}.c" for symbol in kernels} < {path.name for path in sources}
    flags = [f"-std=c{rules.standard}", *rules.flags, *WARNINGS]
    ran("gcc", *flags, "-fsyntax-only", *sources)
    ran("gcc", *flags, "-c", tmp_path / "head_add_f32.c", "-o", tmp_path / "add.o")
    linked = {row.split()[-1] for row in ran("nm", tmp_path / "add.o").splitlines() if " T " in row}
    assert linked == {"head_add_f32", source_proof("add_f32.c", "head")}
