# XID errors since the machine started that mean broken hardware. Those of applications (13, 31, 43, 45, 94) are none:
# a job that causes them would take one machine after the other away.
. "$(dirname "$0")/lib.sh"
have dmesg || exit 0
code=$(dmesg 2> /dev/null | sed -n 's/.*NVRM: Xid ([^)]*): \([0-9][0-9]*\),.*/\1/p' | grep -xE '48|62|64|74|79|95|119|120|140|143' | tail -n 1)
[ -n "$code" ] || exit 0
echo "$code"
exit 1
