"""A compiler that puts neural-network training on microcontrollers.

Installed, `deployer.targets`, `deployer.tilers` and `deployer.templates` are packages of the distribution. In a
checkout these three are top-level folders, so the checkout's root joins the package path.
"""

from pathlib import Path

__version__ = "0.1.0"

_ROOT = Path(__file__).resolve().parent.parent
if (_ROOT / "pyproject.toml").is_file() and (_ROOT / "targets").is_dir():
    __path__.append(str(_ROOT))
