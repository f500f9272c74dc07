"""A local cloud in short: creates a cluster in the folder given, to be killed in the middle of it."""

from __future__ import annotations

import sys
from pathlib import Path

from localcloud.kubernetes import KwokControlPlane
from tests.unit.localcloud_kubernetes.support import CLUSTER
from tools.toolchain import binary

if __name__ == "__main__":
    sys.stdout.write("begins\n")
    sys.stdout.flush()
    KwokControlPlane(Path(sys.argv[1]), binary=binary).create(CLUSTER)
