"""`python -m tinyldp`: the command line."""

import sys

from tinyldp.cli import main

sys.exit(main())
