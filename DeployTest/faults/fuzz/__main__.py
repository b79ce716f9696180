"""`python -m DeployTest.faults.fuzz`: a campaign, or one input of it again."""

import sys

from .campaign import main

if __name__ == "__main__":
    sys.exit(main())
