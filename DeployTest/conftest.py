"""The markers that tests are selected by."""

import pytest

MARKERS = {
    "host": "runs on the host",
    "qemu_riscv": "runs on RISC-V under QEMU",
    "siracusa": "runs on Siracusa under GVSoC",
    "kernels": "single operators",
    "models": "inference graphs",
    "training": "training graphs",
    "l2": "tensors live in L2",
    "l3": "tensors live in L3",
    "singlebuffer": "single buffering",
    "doublebuffer": "double buffering",
    "auto": "buffering chosen per step",
    "slow": "takes more than a few seconds",
}


def pytest_configure(config: pytest.Config) -> None:
    """Register every marker, because --strict-markers refuses others."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
