#!/bin/bash
# Prolog: a look of a second before a job starts on this node. When it fails, Slurm drains the node and starts the job on
# another (nohold_on_prolog_fail). Nothing is made here, and nothing slow is asked.
. "${HEALTH_FOLDER:-/opt/gpuplatform/health}/lib.sh" 2> /dev/null || exit 0
fault=$(export QUICK=1; CHECK_SECONDS=3 first_fault check-disk check-gpu-count) && exit 0
drain "${fault#check-}"
echo "${fault#check-}" >&2
exit 1
