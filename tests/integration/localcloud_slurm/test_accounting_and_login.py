"""MariaDB, slurmdbd and a login node, as pods beside the rest."""

from __future__ import annotations

from tests.integration.localcloud_kubernetes.support import until
from tests.integration.localcloud_slurm.site import ALL_KEYS, KEYS, Json, Site, empty, etc, mount, pod, service, user
from tests.unit.localcloud_kubernetes.support import h100

NODE = h100(0).name

SLURMDBD_CONF = """\
DbdHost=slurm-accounting-0
DbdPort=6819
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd/slurmdbd.pid
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
StorageType=accounting_storage/mysql
StorageHost=mariadb
StorageUser=slurm
StorageLoc=slurm_acct_db
StoragePass=it's-secret
"""


def mariadb() -> Json:
    container = {
        "name": "mariadb",
        "image": "mariadb",
        "ports": [{"containerPort": 3306}],
        "env": [
            {"name": "MARIADB_ROOT_PASSWORD", "value": "root"},
            {"name": "MARIADB_DATABASE", "value": "slurm_acct_db"},
            {"name": "MARIADB_USER", "value": "slurm"},
            {"name": "MARIADB_PASSWORD", "value": "it's-secret"},
        ],
        "volumeMounts": [mount("storage", "/var/lib/mysql"), mount("config", "/etc/mysql/conf.d")],
    }
    volumes = [*empty("storage"), {"name": "config", "configMap": {"name": "mariadb-config"}}]
    return pod("mariadb-0", "mariadb", NODE, {"containers": [container], "volumes": volumes})


def slurmdbd() -> Json:
    mounts = [mount("slurm-etc", "/etc/slurm"), mount("run", "/run/slurmdbd"), mount("log", "/var/log/slurm")]
    container = {
        "name": "slurmdbd",
        "image": "slurmdbd",
        "args": ["-D"],
        "ports": [{"containerPort": 6819}],
        "volumeMounts": mounts,
    }
    volumes = [etc({"secret": {"name": "slurm-accounting"}}, *ALL_KEYS), *empty("run", "log")]
    spec = {"securityContext": user(401), "containers": [container], "volumes": volumes}
    return pod("slurm-accounting-0", "slurmdbd", NODE, spec)


def login() -> Json:
    container = {
        "name": "login",
        "image": "login",
        "env": [{"name": "SACKD_OPTIONS", "value": "--conf-server slurm-controller.slurm:6817"}],
        "ports": [{"containerPort": 22}],
        "readinessProbe": {"exec": {"command": ["test", "-S", "/run/slurm/sack.socket"]}},
        "volumeMounts": [mount("slurm-etc", "/etc/slurm"), mount("run", "/run/slurm")],
    }
    volumes = [etc(*KEYS), *empty("run")]
    return pod("login-0", "login", NODE, {"containers": [container], "volumes": volumes})


def test_slurmdbd_keeps_its_records_in_mariadb(site: Site) -> None:
    metadata = {"namespace": "slurm"}
    settings = {"0-my.cnf": "[mariadbd]\ninnodb_buffer_pool_size=64M\ninnodb_lock_wait_timeout=900\n"}
    secret = {"slurmdbd.conf": SLURMDBD_CONF}
    site.create(
        service("mariadb", "mariadb", 3306),
        service("slurm-accounting", "slurmdbd", 6819),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": "mariadb-config"}, "data": settings},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**metadata, "name": "slurm-accounting"},
            "stringData": secret,
        },
        mariadb(),
        slurmdbd(),
    )
    site.await_ready("mariadb-0", "slurm-accounting-0", seconds=90)
    query = ["mariadb", "--user=root", "--password=root", "--socket=/run/mysqld/mysqld.sock", "-N", "-e"]
    tables = [*query, "show tables in slurm_acct_db"]
    until(lambda: "acct_table" in site.run("mariadb-0", "mariadb", *tables))
    asked = [*query, "show variables like 'innodb_lock_wait_timeout'"]
    assert site.run("mariadb-0", "mariadb", *asked).split()[-1] == "900"


def test_a_user_of_the_login_node_submits_without_any_right(site: Site) -> None:
    site.await_ready("slurm-controller-0", "gpu-0", "gpu-1")
    site.create(login(), service("login", "login", 22))
    site.await_ready("login-0")
    as_user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]
    said = site.run("login-0", "login", *as_user, "srun", "--chdir=/tmp", "--mem=1G", "-N2", "id", "-un")
    assert said.split() == ["user", "user"]
    refused = site.run("login-0", "login", *as_user, "scontrol", "update", "nodename=gpu-0", "state=drain", ok=False)
    assert "denied" in refused or "Invalid user" in refused
    with site.kubelets.connect(site.live.cluster.id, site.pod("login-0")["status"]["podIP"], 22) as connection:
        connection.settimeout(10)
        assert connection.recv(8) == b"SSH-2.0-"
