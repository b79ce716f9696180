#!/usr/bin/env python3
"""Compile and run the optimizer graph of a training case alone: `deployer optimizer` under its known name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deployer.cli import main

if __name__ == "__main__":
    sys.exit(main(["optimizer", *sys.argv[1:]]))
