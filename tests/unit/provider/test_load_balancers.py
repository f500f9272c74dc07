"""What a deleted cluster leaves behind that is paid for."""

from __future__ import annotations

import pytest

from crusoe.provider import load_balancers
from crusoe.provider.clusters import KubernetesCluster
from tests.unit.provider.support import Bench, before, values

BALANCERS = load_balancers.COLLECTION
CLUSTER = "11111111-aaaa-4aaa-8aaa-00000004033f"


@pytest.fixture
def bench() -> Bench:
    """A project with a cluster and load balancers of it, of another cluster and of nobody."""
    bench = Bench()
    bench.api.objects["kubernetes/clusters"] = {
        CLUSTER: {"id": CLUSTER, "name": "c"},
        "other": {"id": "22222222-aaaa-4aaa-8aaa-0000000abcde", "name": "o"},
    }
    names = {"its": "slurm-login-slurm-4033f", "others": "slurm-login-slurm-abcde", "nobodys": "web"}
    listed = {key: values(id=key, name=name) for key, name in names.items()}
    bench.api.objects[BALANCERS] = listed
    bench.api.answers[BALANCERS] = {"items": list(listed.values())}
    return bench


def delete(bench: Bench) -> None:
    KubernetesCluster().delete(bench.run(), CLUSTER, values(name="c"))
    assert CLUSTER not in bench.api.objects["kubernetes/clusters"]


def test_load_balancers_of_the_deleted_cluster_go_and_no_others(bench: Bench) -> None:
    delete(bench)
    assert set(bench.api.objects[BALANCERS]) == {"others", "nobodys"}


def test_one_that_may_be_another_clusters_is_kept_and_told(bench: Bench) -> None:
    alike = "33333333-aaaa-4aaa-8aaa-00000004033f"
    bench.api.objects["kubernetes/clusters"]["alike"] = {"id": alike, "name": "a"}
    delete(bench)
    assert set(bench.api.objects[BALANCERS]) == {"its", "others", "nobodys"}
    (told,) = bench.engine.warnings
    assert "slurm-login-slurm-4033f" in told


@pytest.mark.parametrize(
    ("method", "words"), [("DELETE", "slurm-login-slurm-4033f (its)"), ("GET", "could not be seen")]
)
def test_what_fails_is_a_warning_since_the_cluster_is_gone(bench: Bench, method: str, words: str) -> None:
    bench.api.fault(method, BALANCERS, before(403, "not allowed"))
    delete(bench)
    (told,) = bench.engine.warnings
    assert words in told
    assert "its" in bench.api.objects[BALANCERS]
