"""Cluster settings become kwokctl's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.configuration import (
    command_arguments,
    component_arguments,
    kwokctl_configuration,
    with_arguments,
)
from localcloud.kubernetes.home import Home, Ports
from tests.unit.localcloud_kubernetes.support import CLUSTER, OIDC, cluster

PORTS = Ports(21001, 21002, 21003, 21004, 21005, 21006)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, CLUSTER.id)


def documents(home: Home) -> list[dict[str, Any]]:
    return kwokctl_configuration(CLUSTER, home, PORTS, lambda name: Path("/tools") / name)


def test_everything_binds_to_the_loopback_address_and_the_given_ports(home: Home) -> None:
    options = documents(home)[0]["options"]
    assert options["bindAddress"] == "127.0.0.1"
    assert {key: value for key, value in options.items() if key.endswith("Port")} == {
        "etcdPort": 21001,
        "etcdPeerPort": 21002,
        "kubeApiserverPort": 21003,
        "kubeControllerManagerPort": 21004,
        "kubeSchedulerPort": 21005,
        "kwokControllerPort": 21006,
    }


def test_every_binary_comes_from_the_toolchain_so_that_nothing_is_downloaded(home: Home) -> None:
    options = documents(home)[0]["options"]
    assert sorted(value for key, value in options.items() if key.endswith("Binary")) == [
        "/tools/etcd",
        "/tools/kube-apiserver",
        "/tools/kube-controller-manager",
        "/tools/kube-scheduler",
        "/tools/kubectl",
        "/tools/kwok",
    ]


def test_the_stages_replace_all_of_kwokctls_own(home: Home) -> None:
    stages = [item["metadata"]["name"] for item in documents(home) if item["kind"] == "Stage"]
    assert stages == ["node-initialize", "node-heartbeat-with-lease", "pod-ready", "pod-complete", "pod-delete"]


def test_the_clusters_ranges_become_flags(home: Home) -> None:
    arguments = component_arguments(CLUSTER, home)
    assert arguments["kube-apiserver"]["service-cluster-ip-range"] == "10.96.0.0/16"
    assert arguments["kube-controller-manager"]["cluster-cidr"] == "10.234.0.0/16"
    assert arguments["kube-controller-manager"]["node-cidr-mask-size"] == "24"
    assert arguments["kube-controller-manager"]["allocate-node-cidrs"] == "true"


def test_oidc_settings_become_flags_and_absent_ones_do_not(home: Home) -> None:
    flags = component_arguments(cluster(oidc=OIDC), home)["kube-apiserver"]
    assert {key: value for key, value in flags.items() if key.startswith("oidc-")} == {
        "oidc-issuer-url": "https://login.example",
        "oidc-client-id": "platform",
        "oidc-username-claim": "email",
        "oidc-username-prefix": "oidc:",
        "oidc-groups-claim": "groups",
        "oidc-ca-file": str(home.oidc_ca),
    }
    assert not [key for key in component_arguments(CLUSTER, home)["kube-apiserver"] if key.startswith("oidc-")]


def test_extra_arguments_reach_their_component_with_or_without_dashes(home: Home) -> None:
    arguments = component_arguments(
        cluster(
            apiserver_extra_args={"--audit-log-maxage": "7"},
            scheduler_extra_args={"v": "2"},
            controller_manager_extra_args={"terminated-pod-gc-threshold": "50"},
        ),
        home,
    )
    assert arguments["kube-apiserver"]["audit-log-maxage"] == "7"
    assert arguments["kube-scheduler"]["v"] == "2"
    assert arguments["kube-controller-manager"]["terminated-pod-gc-threshold"] == "50"


@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("apiserver_extra_args", "bind-address"),
        ("apiserver_extra_args", "--secure-port"),
        ("apiserver_extra_args", "etcd-servers"),
        ("apiserver_extra_args", "client-ca-file"),
        ("apiserver_extra_args", "authorization-mode"),
        ("apiserver_extra_args", "oidc-issuer-url"),
        ("scheduler_extra_args", "bind-address"),
        ("scheduler_extra_args", "config"),
        ("controller_manager_extra_args", "cluster-cidr"),
        ("controller_manager_extra_args", "kubeconfig"),
    ],
)
def test_extra_arguments_cannot_move_what_the_platform_owns(home: Home, field: str, flag: str) -> None:
    with pytest.raises(ControlPlaneError, match=rf"{field} of cluster train: {flag.lstrip('-')} belongs to"):
        component_arguments(cluster(**{field: {flag: "0.0.0.0"}}), home)


def kwok_yaml() -> list[dict[str, Any]]:
    return [
        {
            "kind": "KwokctlConfiguration",
            "componentsPatches": [{"name": "kube-scheduler", "extraArgs": [{"key": "v", "value": "2"}]}],
            "components": [
                {"name": "etcd", "args": ["--name=node0"]},
                {"name": "kube-scheduler", "args": ["--secure-port=1", "--v=2"]},
            ],
        },
        {"kind": "Stage"},
    ]


def test_new_arguments_replace_the_added_ones_and_leave_kwokctls_own() -> None:
    changed = with_arguments(kwok_yaml(), {"kube-scheduler": {"v": "4", "profiling": "false"}})
    assert command_arguments(changed) == {
        "etcd": ["--name=node0"],
        "kube-scheduler": ["--secure-port=1", "--v=4", "--profiling=false"],
    }
    assert changed[1] == {"kind": "Stage"}


def test_replacing_arguments_twice_is_the_same_as_once() -> None:
    arguments = {"kube-scheduler": {"v": "4"}}
    once = with_arguments(kwok_yaml(), arguments)
    assert with_arguments(once, arguments) == once


def test_arguments_can_be_taken_back() -> None:
    assert command_arguments(with_arguments(kwok_yaml(), {}))["kube-scheduler"] == ["--secure-port=1"]
