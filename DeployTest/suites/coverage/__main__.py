"""Scores PyTorch's own samples: `python -m DeployTest.suites.coverage`."""

import sys

from DeployTest.suites.coverage.score import main

sys.exit(main())
