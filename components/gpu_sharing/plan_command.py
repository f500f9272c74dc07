"""`make plan`: reads a stack's settings from standard input, checks them, and prints who has what of the shared pools.

It asks no cloud and changes nothing. Ends with 0 where the settings can be used, else with 1 and every fault.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from components import node_pools
from components.configuration import read
from components.gpu_sharing import plan, table
from components.settings import SettingsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan; return the exit status."""
    parser = argparse.ArgumentParser(prog="make plan", description="Prints who has what of the shared GPU pools.")
    parser.add_argument("--stack", required=True, help="the stack that the settings are of")
    stack: str = parser.parse_args(arguments).stack
    try:
        settings = read(json.load(sys.stdin), stack)
    except SettingsError as error:
        lines = "\n".join(f"  {finding}" for finding in error.findings)
        sys.stderr.write(f"The settings of the stack {stack} can't be used:\n{lines}\n")
        return 1
    if settings.gpu_sharing is None or settings.slurm is None:
        print(f"The stack {stack} shares no GPUs. `platform.gpuSharing` in its settings does (docs/gpu-sharing.md).")
        return 0
    pools = node_pools.plan(
        settings.node_pools, stack=stack, cluster_version=settings.cluster.version, protect=settings.protect
    )
    print("\n".join(table.lines(plan.plan(settings.gpu_sharing, pools, settings.slurm))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
