"""Scripts that run in Slurm's pods: pure functions from numbers to text."""

DRAIN_REASON = "slurm-operator: the pod is ending"
"""Owner of the drain first: the operator clears what bears its name as soon as the worker is back, and nothing else."""


def pre_stop(*, drain_budget: int, kill_wait: int) -> str:
    """What a worker does before its pod ends: no new jobs, and those that run here go back into the queue.

    Draining, never `down`: a node set down while its slurmd lives is idle again a second later where ReturnToService
    is 2, and takes the job back onto the broken host. Members of an array are named as such (`123_4`), because the
    bare number of one may mean the whole array. A job that may not be requeued is told to save, at least.

    slurmctld may be starting anew at this moment, and no answer is not a no: only what it refuses twice while it is up
    is refused. A node that can't be drained within `drain_budget` has nothing left to wait for.

    `drain_budget` and `kill_wait` in seconds; it never takes longer than both together.
    """
    whole = drain_budget + kill_wait
    return f"""\
set -u
node=$(hostname)
started=$SECONDS
slurm() {{ timeout {max(1, drain_budget // 3)} "$@"; }}
# ask SECONDS COMMAND...: until it is done, refused twice, or so many seconds have gone since the start
ask() {{
  local end=$((started + $1)) refused=0
  shift
  until slurm "$@"; do
    slurm scontrol ping > /dev/null 2>&1 && refused=$((refused + 1))
    [ $refused -lt 2 ] && [ $SECONDS -lt $end ] || return 1
    sleep 1
  done
}}
ask {drain_budget} scontrol update nodename="$node" state=drain reason="{DRAIN_REASON}" || exit 0
for job in $(ask {drain_budget} squeue --noheader --nodelist="$node" --states=running,suspended --format=%i); do
  ask {drain_budget} scontrol requeue "$job" || slurm scancel --full --signal=TERM "$job"
done
while [ -n "$(ask {whole} squeue --noheader --nodelist="$node" --format=%i)" ]; do
  [ $SECONDS -lt $((started + {whole})) ] || break
  sleep 1
done
"""
