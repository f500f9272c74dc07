# The clock: credentials of jobs and tokens expire by it.
. "$(dirname "$0")/lib.sh"
have chronyc || exit 0
chronyc -c tracking 2> /dev/null | awk -F , -v most="${HEALTH_CLOCK_SECONDS:-5}" '
    { off = $5 + 0; if (off < 0) off = -off; if (off > most) { printf "%.1f s off\n", off; exit 1 } }'
