"""`python -m deployer` is the command `deployer`."""

import sys

from deployer.cli import main

sys.exit(main())
