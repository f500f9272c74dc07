# What all checks share. A check prints nothing and returns 0 when all is well, or when it can't tell; else it prints
# what is wrong in a few words and returns 1. A machine is never taken out for what nobody could see.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
[ -z "${HEALTH_PATH:-}" ] || PATH=$HEALTH_PATH

SYS=${HEALTH_SYS:-/sys}
DEV=${HEALTH_DEV:-/dev}
SPOOL=${HEALTH_SPOOL:-/var/spool/slurmd}
DECLARED=${HEALTH_DECLARED:-/run/gpuplatform-gpus-declared}
CHECK_SECONDS=${HEALTH_CHECK_SECONDS:-10}
NODE=${SLURMD_NODENAME:-$(hostname)}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

have() { command -v "$1" > /dev/null; }

# Run one check within its time. One that takes longer is the answer of a machine that hangs.
check() {
    local said status
    said=$(timeout -k 2 "$CHECK_SECONDS" bash "$HERE/$1.sh" 2> /dev/null)
    status=$?
    case $status in
        0) return 0 ;;
        124 | 137) echo "$1 hangs" ;;
        1) echo "$1 $said" ;;
        *) return 0 ;;
    esac
    return 1
}

# The first fault of the checks that are named.
first_fault() {
    local name
    for name in "$@"; do check "$name" && continue; return 1; done
    return 0
}

# What slurmctld knows of this node, in one line; nothing while it does not answer or does not know it.
node_record() { timeout 5 scontrol --oneliner show node "$NODE" 2> /dev/null; }

# The reason of a drain, empty when there is none.
drain_reason() { node_record | sed -n '/ State=[^ ]*DRAIN/s/.* Reason=\(.*\) \[[^]]*@[^]]*\].*/\1/p'; }

# Drain this node; what a person said stays. What machines said of it before is worth less than what was found now.
drain() {
    local now
    now=$(drain_reason)
    case $now in
        "" | "slurm-operator:"* | "actor:"*) timeout 5 scontrol update nodename="$NODE" state=drain reason="health: $1" ;;
    esac
}
