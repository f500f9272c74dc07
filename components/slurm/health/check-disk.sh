# The disk that slurmd starts jobs from: it takes a file, and has room.
. "$(dirname "$0")/lib.sh"
probe=$SPOOL/.health-$$
if ! : 2> /dev/null > "$probe"; then
    echo "$SPOOL can't be written"
    exit 1
fi
rm -f "$probe"
free=$(df -Pk "$SPOOL" | awk 'NR == 2 { print int($4 / 1024) }')
[ "$free" -ge "${HEALTH_FREE_MIB:-512}" ] && exit 0
echo "$SPOOL has $free MiB left"
exit 1
