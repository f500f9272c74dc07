# NVLinks that are down, on machines that have any.
. "$(dirname "$0")/lib.sh"
have nvidia-smi || exit 0
down=$(nvidia-smi nvlink --status 2> /dev/null | grep -ciE 'link [0-9]+: *(<inactive>|inactive|disabled)')
up=$(nvidia-smi nvlink --status 2> /dev/null | grep -ciE 'link [0-9]+: *[0-9.]+ *GB/s')
if [ "$up" -eq 0 ] || [ "$down" -eq 0 ]; then exit 0; fi
echo "$down links down"
exit 1
