"""A rate limit of the service: one refusal has every operation of the run pause, not only the one that met it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.provider.engine import Resource, plugin_for
from tests.provider.faults.cell import Site

AT_ONCE = 12
ASKED = 2.0
"""Seconds that the API asks to wait."""


def test_parallel_operations_all_wait_as_long_as_the_api_asks(site: Site) -> None:
    cloud = site.cloud
    with plugin_for(cloud) as plugin:
        networks = [plugin.resource("VpcNetwork", f"rate-{number}") for number in range(AT_ONCE)]
        for number, network in enumerate(networks):
            network.up({"name": f"rate-{number}", "cidr": "10.20.0.0/16"})
        cloud.forget_requests()
        cloud.fault("GET .../vpc-networks/*", "http-429", times=1, retry_after=int(ASKED))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            assert list(pool.map(Resource.refresh, networks * 3)) == [{}] * len(networks) * 3
        requests = cloud.requests("GET", "/vpc-networks/")
        (refused,) = [one["at"] for one in requests if one["status"] == 429]
        # What was under way when the refusal came is answered; after that nothing is asked until the time is over.
        under_way = [one["at"] - refused for one in requests if 0 < one["at"] - refused < 0.5]
        later = [one["at"] - refused for one in requests if one["at"] - refused >= 0.5]
        assert len(under_way) <= 2 * AT_ONCE
        assert min(later) >= ASKED - 0.1
        assert len(requests) == 3 * AT_ONCE + 1, "nothing is asked twice but what was refused"
        for network in networks:
            network.destroy()
