"""Cluster settings in, kwokctl configuration out: pure functions.

What a `ClusterSpec` asks for becomes flags of the components. Flags that decide where a component listens, where it
stores its data and whom it trusts belong to the platform, as they do in CMK, and are refused in `*_extra_args`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import yaml

from localcloud.control_plane import ClusterSpec, ControlPlaneError
from localcloud.kubernetes.home import Home, Ports
from localcloud.kubernetes.ports import LOOPBACK

Arguments = Mapping[str, Mapping[str, str]]
"""Flags by component: `{"kube-scheduler": {"leader-elect": "false"}}`."""

Document = dict[str, Any]
Binary = Callable[[str], Path]

_BINARIES = {
    "etcdBinary": "etcd",
    "kubeApiserverBinary": "kube-apiserver",
    "kubeControllerManagerBinary": "kube-controller-manager",
    "kubeSchedulerBinary": "kube-scheduler",
    "kwokControllerBinary": "kwok",
    "kubectlBinary": "kubectl",
}
TOOLS = {
    "etcd": "etcd",
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kube-controller-manager",
    "kube-scheduler": "kube-scheduler",
    "kwok-controller": "kwok",
}
"""The tool behind each component."""

_EXTRA_ARGS = {
    "kube-apiserver": "apiserver_extra_args",
    "kube-scheduler": "scheduler_extra_args",
    "kube-controller-manager": "controller_manager_extra_args",
}
_OWNED = re.compile(
    r"etcd-.*|storage-backend|(bind|advertise)-address|secure-port|permit-(address|port)-sharing|tls-.*|cert-dir|client-ca-file"
    r"|requestheader-.*|proxy-client-.*|service-account-.*|root-ca-file|cluster-signing-.*|authorization-(mode|config)"
    r"|authorization-webhook-.*|authentication-.*|(authorization-)?kubeconfig|config|master|leader-elect.*"
    r"|service-cluster-ip-range|cluster-cidr|node-cidr-mask-size.*|egress-selector-.*|allocate-node-cidrs|cloud-provider|oidc-.*"
)
# In-cluster clients are told this address; nothing listens there (RFC 5737). Giving one keeps the API server from
# looking for a network interface, which a laptop that is offline may not have.
_ADVERTISED_ADDRESS = "192.0.2.1"


def component_arguments(cluster: ClusterSpec, home: Home) -> Arguments:
    """The flags of each component beyond kwokctl's own.

    Raises ControlPlaneError for an extra argument that the platform owns.
    """
    arguments: dict[str, dict[str, str]] = {
        "kube-apiserver": {
            "advertise-address": _ADVERTISED_ADDRESS,
            "service-cluster-ip-range": cluster.service_cluster_ip_range,
            "egress-selector-config-file": str(home.egress_configuration),
            **_oidc_flags(cluster, home),
        },
        "kube-controller-manager": {
            "allocate-node-cidrs": "true",
            "cluster-cidr": cluster.cluster_cidr,
            "node-cidr-mask-size": str(cluster.node_cidr_mask_size),
            "service-cluster-ip-range": cluster.service_cluster_ip_range,
            "cluster-signing-cert-file": str(home.certificate("ca.crt")),
            "cluster-signing-key-file": str(home.certificate("ca.key")),
            # It writes to every node whenever their number passes 100, 500 or 1,000, for kubelets that aren't there.
            "controllers": "*,-ttl-controller",
            # There is one of each, and after a kill a new one would wait for the old one's lease to run out.
            "leader-elect": "false",
        },
        "kube-scheduler": {"leader-elect": "false"},
    }
    for component, field in _EXTRA_ARGS.items():
        for flag, value in cast(Mapping[str, str], getattr(cluster, field)).items():
            name = flag.lstrip("-")
            if _OWNED.fullmatch(name):
                raise ControlPlaneError(
                    f"{field} of cluster {cluster.name}: {name} belongs to the platform and can't be set. Remove it."
                )
            arguments[component][name] = value
    return arguments


def kwokctl_configuration(cluster: ClusterSpec, home: Home, ports: Ports, binary: Binary) -> list[Document]:
    """The documents of the file given to `kwokctl create cluster --config`."""
    return [
        {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokctlConfiguration",
            "options": {
                "runtime": "binary",
                "bindAddress": LOOPBACK,
                "disableQPSLimits": True,
                **{option: str(binary(tool)) for option, tool in _BINARIES.items()},
                **{f"{_camel(name)}Port": port for name, port in asdict(ports).items()},
            },
            "componentsPatches": _patches(component_arguments(cluster, home)),
        },
        {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            # Pods on a node that got no range of its own, because the ranges of the cluster CIDR are used up.
            "options": {"cidr": cluster.cluster_cidr},
        },
        *cast(
            list[Document], list(yaml.safe_load_all(files("localcloud.kubernetes").joinpath("stages.yaml").read_text()))
        ),
    ]


def egress_configuration(home: Home) -> Document:
    """What the API server asks of Services and nodes goes through a proxy of the local cloud: nothing is there.

    The other kinds of traffic, to etcd and to the outside, are not named and go straight.
    """
    transport = {"uds": {"udsName": str(home.egress_socket)}}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
        ],
    }


def with_arguments(documents: list[Document], arguments: Arguments) -> list[Document]:
    """kwok.yaml with these flags in place of those that were added before.

    kwokctl keeps the added flags as `componentsPatches` in the same file, so it alone says what is kwokctl's own.
    """
    return [
        _with_arguments(document, arguments) if document.get("kind") == "KwokctlConfiguration" else document
        for document in documents
    ]


def command_arguments(documents: list[Document]) -> dict[str, list[str]]:
    """The arguments with which kwok.yaml starts each component."""
    return {
        component["name"]: component["args"]
        for document in documents
        if document.get("kind") == "KwokctlConfiguration"
        for component in document["components"]
    }


def _with_arguments(document: Document, arguments: Arguments) -> Document:
    added = {patch["name"]: set(_flags(patch.get("extraArgs", []))) for patch in document["componentsPatches"]}
    patches = _patches(arguments)
    adding = {patch["name"]: _flags(patch["extraArgs"]) for patch in patches}

    def rewritten(component: Document) -> Document:
        name = component["name"]
        own = [argument for argument in component["args"] if argument not in added.get(name, ())]
        return {**component, "args": [*own, *adding.get(name, [])]}

    return {
        **document,
        "componentsPatches": patches,
        "components": [rewritten(component) for component in document["components"]],
    }


def _patches(arguments: Arguments) -> list[Document]:
    return [
        {"name": component, "extraArgs": [{"key": key, "value": value} for key, value in flags.items()]}
        for component, flags in arguments.items()
    ]


def _flags(extra_args: list[Document]) -> list[str]:
    return [f"--{argument['key']}={argument['value']}" for argument in extra_args]


def _oidc_flags(cluster: ClusterSpec, home: Home) -> dict[str, str]:
    oidc = cluster.oidc
    if oidc is None:
        return {}
    flags = {
        "oidc-issuer-url": oidc.issuer_url,
        "oidc-client-id": oidc.client_id,
        "oidc-username-claim": oidc.username_claim,
        "oidc-username-prefix": oidc.username_prefix,
        "oidc-groups-claim": oidc.groups_claim,
        "oidc-ca-file": str(home.oidc_ca) if oidc.ca_cert else None,
    }
    return {flag: value for flag, value in flags.items() if value}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
