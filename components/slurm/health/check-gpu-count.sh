# GPUs that answer against those that Slurm was told of: `7 of 8`.
. "$(dirname "$0")/lib.sh"
if [ -n "${QUICK:-}" ]; then
    # Before a job starts, slurmctld is not asked: a job of a thousand nodes would ask it a thousand times.
    declared=$(cat "$DECLARED" 2> /dev/null || echo 0)
else
    gres=$(node_record | sed -n 's/.* Gres=\([^ ]*\).*/\1/p' | sed 's/([^)]*)//g')
    declared=$(echo "$gres" | tr , '\n' | awk -F : '$1 == "gpu" { sum += $NF } END { print sum + 0 }')
    [ -z "$gres" ] || echo "$declared" > "$DECLARED"
fi
[ "$declared" -gt 0 ] || exit 0
if have nvidia-smi; then
    found=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | grep -c '^GPU-')
elif have rocm-smi; then
    found=$(rocm-smi --showid --csv | grep -c '^card')
else
    # Without either tool the driver's devices are what there is to count.
    found=0
    for device in "$DEV"/nvidia[0-9]*; do [ ! -e "$device" ] || found=$((found + 1)); done
fi
[ "$found" -ge "$declared" ] && exit 0
echo "$found of $declared"
exit 1
