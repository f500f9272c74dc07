"""The text that the operator writes."""

from __future__ import annotations

import pytest

from localcloud.slinky.conf import Scripts, Surroundings, cluster_name, node_set_name, slurm_conf, slurmdbd_conf
from tests.unit.localcloud_slinky.support import JWT_KEY, SLURM_KEY, controller, node_set, resource

BARE = """\
### GENERAL ###
ClusterName=slurm_slurm
SlurmUser=slurm
SlurmctldHost=slurm-controller-0(slurm-controller.slurm)
SlurmctldPort=6817
StateSaveLocation=/var/spool/slurmctld
SlurmdUser=root
SlurmdPort=6818
SlurmdSpoolDir=/var/spool/slurmd
MaxNodeCount=1024
#
### LOGGING ###
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
#
### PLUGINS & PARAMETERS ###
AuthType=auth/slurm
CredType=auth/slurm
AuthAltTypes=auth/jwt
SlurmctldParameters=enable_configless,reconfig_on_restart
AuthInfo=use_client_ids
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
#
### ACCOUNTING ###
AccountingStorageType=accounting_storage/none
#
### MERGED ###
SlurmctldParameters=enable_configless,reconfig_on_restart
AuthInfo=use_client_ids
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
"""


def lines(text: str) -> list[str]:
    return text.splitlines()


def last(text: str, option: str) -> str:
    """The value that Slurm uses: the latest."""
    return [line for line in lines(text) if line.startswith(f"{option}=")][-1].partition("=")[2]


def test_the_bare_text() -> None:
    assert slurm_conf(controller(), Surroundings()) == BARE


def test_everything_that_slinky_pruned_is_absent() -> None:
    for option in ("ReturnToService", "GresTypes", "SelectType", "ProctrackType", "PrologFlags"):
        assert option not in BARE


def test_workers_partitions_scripts_accounting_and_metrics() -> None:
    prefixed = node_set(
        template={"spec": {"hostname": "gpu-"}}, partition={"enabled": True, "config": "Default=YES MaxTime=INFINITE"}
    )
    plain = resource("NodeSet", "borrow", {"partition": {"enabled": False, "config": "Hidden=YES"}})
    scripts = Scripts(("prolog-a.sh",), ("epilog-a.sh",), ("prolog-ctld.sh",), ("epilog-ctld.sh",))
    found = lines(
        slurm_conf(
            controller(metrics={"enabled": True}),
            Surroundings(("slurm-accounting", 6819), [prefixed, plain], scripts),
        )
    )
    for line in (
        "NodeSet=gpu Feature=gpu",
        "PartitionName=gpu Nodes=gpu Default=YES MaxTime=INFINITE",
        "NodeSet=borrow Feature=borrow",
        "MetricsType=metrics/openmetrics",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=slurm-accounting",
        "AccountingStoragePort=6819",
        "Prolog=prolog-a.sh",
        "Epilog=epilog-a.sh",
        "PrologSlurmctld=/etc/slurm/prolog-ctld.sh",
        "EpilogSlurmctld=/etc/slurm/epilog-ctld.sh",
    ):
        assert line in found
    assert not any("Hidden" in line for line in found)


def test_the_users_values_of_shared_options_are_joined_to_the_operators() -> None:
    extra = (
        "slurmctldparameters = enable_stepmgr,enable_configless\nAuthInfo=cred_expire=30 # short\nReturnToService=1\n"
    )
    text = slurm_conf(controller(extraConf=extra), Surroundings())
    assert last(text, "SlurmctldParameters") == "enable_configless,reconfig_on_restart,enable_stepmgr"
    assert last(text, "AuthInfo") == "use_client_ids,cred_expire=30"
    assert last(text, "AuthAltParameters") == "jwt_key=/etc/slurm/jwt.key"
    assert lines(text).index("ReturnToService=1") < lines(text).index("### MERGED ###")


def test_a_dangling_partition_of_the_user_stays() -> None:
    text = slurm_conf(controller(extraConf="PartitionName=all Nodes=gone"), Surroundings())
    assert "PartitionName=all Nodes=gone" in lines(text)


def test_jwks_are_read_too() -> None:
    text = slurm_conf(controller(jwksKeyRef={"name": "jwks", "key": "jwks.json"}), Surroundings())
    assert last(text, "AuthAltParameters") == "jwt_key=/etc/slurm/jwt.key,jwks=/etc/slurm/jwks.json"


@pytest.mark.parametrize(("spec", "name"), [({}, "slurm_slurm"), ({"clusterName": "prod"}, "prod")])
def test_the_clusters_name(spec: dict[str, str], name: str) -> None:
    assert cluster_name(controller(**spec)) == name


@pytest.mark.parametrize(("hostname", "name"), [(None, "train"), ("gpu-", "gpu"), ("gpu", "gpu")])
def test_a_node_sets_name_is_its_host_names_prefix(hostname: str | None, name: str) -> None:
    assert node_set_name(node_set(template={"spec": {"hostname": hostname}})) == name


def test_slurmdbd() -> None:
    accounting = resource(
        "Accounting",
        "slurm",
        {
            "slurmKeyRef": SLURM_KEY,
            "jwtKeyRef": JWT_KEY,
            "storageConfig": {"host": "mariadb", "port": 3306, "database": "slurm_acct_db", "username": "slurm"},
            "extraConf": "PurgeJobAfter=12months",
        },
    )
    found = lines(slurmdbd_conf(accounting, "p#w"))
    for line in (
        "DbdHost=slurm-accounting-0",
        "DbdPort=6819",
        "StorageType=accounting_storage/mysql",
        "StorageHost=mariadb",
        "StoragePort=3306",
        "StorageUser=slurm",
        "StorageLoc=slurm_acct_db",
        "StoragePass=p#w",
        "PurgeJobAfter=12months",
    ):
        assert line in found
