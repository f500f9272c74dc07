"""What the engine's Python language host runs for the plugin folder."""

import sys
from pathlib import Path

# Started as a folder, Python puts it first on the path, where its modules could stand in for others of the same name.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

from crusoe.provider.server import main  # noqa: E402 - after the path is right

main()
