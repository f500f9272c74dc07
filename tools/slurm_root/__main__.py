"""`python -m tools.slurm_root`: pin the packages that Debian's mirrors have now, for every architecture."""

import os
import sys
import tempfile
from pathlib import Path

from tools.errors import ToolError
from tools.network import Network
from tools.slurm_root import pins
from tools.slurm_root.archive import Archive, mirrors
from tools.slurm_root.packages import CONTENTS, SUITES, chosen, parse

ARCHITECTURES = ("amd64", "arm64")


def main() -> int:
    """Write the lock files anew; return the exit status."""
    try:
        for arch in ARCHITECTURES:
            with tempfile.TemporaryDirectory() as scratch:
                lists, snapshot = Archive(mirrors(os.environ), Network(), Path(scratch)).package_lists(SUITES, arch)
            listed = {suite: parse(text) for suite, text in lists.items()}
            for contents in CONTENTS:
                pinned = pins.of(contents, chosen(listed, contents), snapshot)
                lock = pins.FOLDER / pins.lock_name(contents, arch)
                lock.write_text(pins.written(pinned), encoding="utf-8")
                print(f"{lock}: {pinned.product} {pinned.version}, {len(pinned.files)} packages")
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
