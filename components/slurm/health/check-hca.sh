# InfiniBand adapters whose port is not active. Ports of Ethernet adapters are Kubernetes' business.
. "$(dirname "$0")/lib.sh"
for port in "$SYS"/class/infiniband/*/ports/*; do
    [ "$(cat "$port/link_layer" 2> /dev/null)" = InfiniBand ] || continue
    state=$(cat "$port/state" 2> /dev/null)
    case $state in
        *ACTIVE*) ;;
        *) echo "$(basename "$(dirname "$(dirname "$port")")") is ${state#*: }"; exit 1 ;;
    esac
done
exit 0
