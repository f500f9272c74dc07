"""Starts the policy pack for an engine."""

import sys
from pathlib import Path

# Started as a folder, Python puts it first on the path, where its modules could stand in for others of the same name.
HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from policies.start import main  # noqa: E402 - after the path is right

main()
