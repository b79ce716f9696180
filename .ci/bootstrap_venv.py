"""Make a virtual environment with pip on a Python without ensurepip, as Debian ships it: bootstrap_venv.py DIR.

Only the standard library is used. pip's own wheel comes from the package index (PIP_INDEX_URL or PyPI), its SHA-256 is
checked against the index, and it installs itself.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import venv
from pathlib import Path


def pip_wheel(folder: Path) -> Path:
    """Download the newest released pip wheel into `folder`; its path."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    with urllib.request.urlopen(index, timeout=60) as page:
        text = page.read().decode()
    found = re.findall(r'href="([^"#]+/(pip-([\d.]+)-py3-none-any\.whl))#sha256=([0-9a-f]{64})"', text)
    if not found:
        raise SystemExit(f"{index} lists no pip wheel; install python3-venv, or set PIP_INDEX_URL")
    url, name, _, digest = max(found, key=lambda item: [int(part) for part in item[2].split(".")])
    with urllib.request.urlopen(urllib.parse.urljoin(index, url), timeout=60) as wheel:
        content = wheel.read()
    if hashlib.sha256(content).hexdigest() != digest:
        raise SystemExit(f"{name} does not have the SHA-256 that {index} states; try again")
    path = folder / name
    path.write_bytes(content)
    return path


def main(directory: Path) -> None:
    """Create the environment and put pip into it."""
    venv.EnvBuilder(clear=True, symlinks=True, with_pip=False).create(directory)
    with tempfile.TemporaryDirectory() as folder:
        wheel = pip_wheel(Path(folder))
        python = directory / "bin" / "python"
        subprocess.run([python, wheel / "pip", "install", "--quiet", "--no-index", wheel], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
