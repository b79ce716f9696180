#!/usr/bin/env python3
"""Compile a training case, run it, and compare every loss and final weight: `deployer train` under its known name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deployer.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
