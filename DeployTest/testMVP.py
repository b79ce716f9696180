#!/usr/bin/env python3
"""Compile an inference case, run it, and compare its outputs: `deployer infer` under its known name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deployer.cli import main

if __name__ == "__main__":
    sys.exit(main(["infer", *sys.argv[1:]]))
