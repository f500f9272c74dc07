"""`python -m environments`: see command.py."""

import sys

from environments.command import main

sys.exit(main())
