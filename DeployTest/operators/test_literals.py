"""Numbers in generated C are the float32 that the compiler had, bit for bit."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from deployer.codegen.c_text import float_literal

pytestmark = [pytest.mark.host]
EDGES = (0.0, -0.0, 1.0, -1.0, 999_999.0, 1e6, -1e6, 1e-45, 1.17549435e-38, 3.4028235e38, np.inf, -np.inf, 0.1, 1 / 3)
PROGRAM = """#include <stdio.h>
#include <string.h>
static const float values[] = {{{values}}};
int main(void) {{
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {{
        unsigned bits;
        memcpy(&bits, &values[i], sizeof bits);
        printf("%08x\\n", bits);
    }}
}}
"""


def test_literals(tmp_path: Path) -> None:
    """Edges of the format, the sign of zero among them, and any bits that are no NaN."""
    randoms = np.random.default_rng(5).integers(0, 2**32, 4000, np.uint32).view(np.float32)
    values = np.concatenate([np.array(EDGES, np.float32), randoms[~np.isnan(randoms)]])
    source = tmp_path / "literals.c"
    source.write_text(PROGRAM.format(values=", ".join(float_literal(float(v)) for v in values)))
    subprocess.run(["gcc", "-Werror", "-Wall", source, "-o", tmp_path / "literals"], check=True)
    printed = subprocess.run([tmp_path / "literals"], capture_output=True, text=True, check=True).stdout.split()
    assert printed == [f"{bits:08x}" for bits in values.view(np.uint32)]
