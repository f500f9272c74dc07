"""How nodes reach the world outside their VPC."""

from __future__ import annotations

from crusoe.rules.finding import Finding
from crusoe.rules.values import table


def way_out(path: str, nat_gateway: object, pools_path: str, pools: object) -> list[Finding]:
    """Check that nodes without public IPs have a NAT gateway, or they pull no image and never become ready.

    `pools` maps each pool's key to `{publicIpType, ...}`.
    """
    if nat_gateway is not False:
        return []
    hidden = [key for key, pool in table(pools).items() if table(pool).get("publicIpType") == "none"]
    if not hidden:
        return []
    problem = (
        f"the nodes of {pools_path}.{hidden[0]} have no public IPs, so without a NAT gateway they reach no registry"
    )
    return [Finding(path, problem, "Write true, or give the pool a publicIpType of 'dynamic'")]
