#!/bin/bash
# Epilog: after a job the node says itself what it has lost. Proven faults only; the job is never blamed here, and never
# held up: this script does not fail.
. "${HEALTH_FOLDER:-/opt/gpuplatform/health}/lib.sh" 2> /dev/null || exit 0
fault=$(first_fault check-gpu-count check-xid check-ecc check-disk) || drain "${fault#check-}"
exit 0
