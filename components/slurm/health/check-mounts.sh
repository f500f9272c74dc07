# Shared disks that don't answer: a stale mount hangs, and the time limit turns that into a fault.
. "$(dirname "$0")/lib.sh"
MOUNTS=${HEALTH_MOUNTS:-/proc/mounts}
awk '$3 ~ /^(nfs|nfs4|lustre|virtiofs|wekafs|fuse\..*)$/ { print $2 }' "$MOUNTS" | while read -r place; do
    ls -d "$place/." > /dev/null 2>&1 || { echo "$place does not answer"; exit 1; }
done
