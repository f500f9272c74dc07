# Memory that can't be corrected, or rows that could not be remapped.
. "$(dirname "$0")/lib.sh"
have nvidia-smi || exit 0
query=ecc.errors.uncorrected.volatile.total,remapped_rows.failure,remapped_rows.pending
nvidia-smi --query-gpu=index,$query --format=csv,noheader,nounits | awk -F ', *' '
    $2 + 0 > 0 { print "gpu " $1 ": " $2 " uncorrectable errors"; exit 1 }
    tolower($3) ~ /yes|^[1-9]/ { print "gpu " $1 ": row remapping failed"; exit 1 }
    tolower($4) ~ /yes|^[1-9]/ { print "gpu " $1 ": row remapping is pending, reset the gpu"; exit 1 }'
