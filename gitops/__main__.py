"""`python -m gitops`: see command.py."""

import sys

from gitops.command import main

sys.exit(main())
