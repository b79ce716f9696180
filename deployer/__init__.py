"""A compiler that puts neural-network training on microcontrollers.

Installed, `deployer.targets`, `deployer.tilers` and `deployer.templates` are packages of the distribution. In a
checkout these three are top-level folders, so the checkout's root joins the package path.
"""

from pathlib import Path
from typing import Any

__version__ = "0.1.0"

LAZY = {
    "fit": "deployer.fitting.call",
    "Callback": "deployer.fitting.callback",
    "EarlyStopping": "deployer.fitting.runs.run_callbacks",
}
"""What is imported from the package itself, and the module that has it: nothing heavy is loaded before it is used."""
LAZY_MODULES = ("callbacks", "loggers", "torch")
"""Modules that are imported when they are first used, so that `import deployer` is all that a program writes."""


def __getattr__(name: str) -> Any:
    """Something of `LAZY`, or one of `LAZY_MODULES`."""
    if name not in LAZY and name not in LAZY_MODULES:
        raise AttributeError(f"module 'deployer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(LAZY[name]), name) if name in LAZY else import_module(f"deployer.{name}")


_ROOT = Path(__file__).resolve().parent.parent
if (_ROOT / "pyproject.toml").is_file() and (_ROOT / "targets").is_dir():
    __path__.append(str(_ROOT))
