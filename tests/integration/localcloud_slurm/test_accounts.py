"""The pod that keeps accounts and limits, as a kubelet runs it."""

from __future__ import annotations

from components.slurm import accounts
from tests.integration.localcloud_kubernetes.support import until
from tests.integration.localcloud_slurm.site import Site
from tests.unit.localcloud_kubernetes.support import h100


def test_the_accounts_pod_gets_to_slurm_with_its_key_alone_and_is_not_ready_before_it_has_succeeded(site: Site) -> None:
    scripts = accounts.files(
        cluster="site",
        conf_server="slurm-controller:6817",
        accounts={},
        qos={},
        gpu_types=(),
        delete_unlisted=False,
    )
    spec = accounts.deployment(
        image="login",
        pod={"nodeName": h100(0).name},
        key={"name": "slurm-auth-slurm", "key": "slurm.key"},
        scripts=scripts,
    )
    metadata = {"name": accounts.NAME, "namespace": "slurm"}
    site.await_ready("slurm-controller-0")
    site.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": scripts},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "labels": spec["template"]["metadata"]["labels"]},
            "spec": spec["template"]["spec"],
        },
    )
    # This site has no accounting, so there is nothing to succeed at; sackd and the configuration are there.
    until(lambda: site.pod(accounts.NAME)["status"].get("phase") == "Running", 30)
    until(lambda: "cluster site is not in the database yet" in site.log(accounts.NAME, "sacctmgr"), 30)
    shown = site.run(accounts.NAME, "sacctmgr", "scontrol", "show", "config")
    assert "ClusterName             = site" in shown
    assert not site.ready(accounts.NAME)
    site.live.kubectl("delete", "pod", accounts.NAME, "-n", "slurm", "--wait=false")
    until(lambda: site.gone(accounts.NAME), 20)
