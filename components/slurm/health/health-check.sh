#!/bin/bash
# HealthCheckProgram: Slurm runs it on every node, at the start of slurmd and then every few minutes, busy or not. It
# drains the node with the first fault as the reason, whose owner is `health`; it never lifts a drain.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fault=$(first_fault check-gpu-count check-xid check-ecc check-nvlink check-hca check-mounts check-disk check-clock) && exit 0
fault=${fault#check-}
drain "$fault" && exit 0
# A node that starts for the first time is not known to slurmctld yet. slurmd waits for this program, so later.
(for _ in 1 2 3 4 5 6; do sleep "${HEALTH_RETRY_SECONDS:-5}"; drain "$fault" && break; done) > /dev/null 2>&1 &
exit 0
