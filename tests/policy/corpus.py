"""Small bad programs, each with exactly the policies that speak of it.

`refused` are the mandatory ones, `advised` the others. They are written as other people write programs, not with the
components of this project.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from tests.policy.analyzer import Json

POOL, SET = "crusoe:index:KubernetesNodePool", "crusoe:index:SlurmNodeSet"


@dataclass(frozen=True)
class Bad:
    """A program and who speaks of it."""

    says: str
    resources: tuple[Json, ...]
    refused: frozenset[str]
    advised: frozenset[str] = field(default_factory=frozenset[str])
    stack: str = "team"


def bad(says: str, *resources: Json, refused: str = "", advised: str = "", stack: str = "team") -> Bad:
    return Bad(says, resources, frozenset(refused.split()), frozenset(advised.split()), stack)


def pool(name: str = "gpu", **properties: Any) -> Json:
    given = {"name": name, "clusterId": "c", "type": "l40s-48gb.10x", "count": 1, "publicIpType": "none", **properties}
    return {"type": POOL, "name": name, "properties": given}


def rule(*sources: str, **properties: Any) -> Json:
    given = {"action": "allow", "direction": "ingress", "protocols": ["tcp"], "sources": [*sources], **properties}
    return {"type": "crusoe:index:VpcFirewallRule", "name": "in", "properties": given}


def kube(token: str, name: str = "thing", **fields: Any) -> Json:
    return {"type": f"kubernetes:{token}", "name": name, "properties": fields}


def repairs(fallback: bool = True, /, **actions: str) -> Json:
    properties = {"remediationActions": actions, "fallbackToProjectReservations": fallback}
    return {"type": "crusoe:index:AutoClustersConfig", "name": "ac", "properties": properties}


def container(image: str = "registry.example.com/job:1.4.2", gpus: int = 0, **more: Any) -> dict[str, Any]:
    resources = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    return {"name": "job", "image": image, **resources, **more}


def deployment(*containers: dict[str, Any], replicas: int = 1, namespace: str = "models", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "m"}}, "spec": {"containers": [*containers], **spec}}
    metadata = {"name": "m", "namespace": namespace}
    return kube("apps/v1:Deployment", "m", metadata=metadata, spec={"replicas": replicas, "template": template})


def quota(namespace: str, gpus: int, *classes: str) -> Json:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [*classes]}
    selector = {"scopeSelector": {"matchExpressions": [scope]}} if classes else {}
    name = "-".join((namespace, *classes))
    spec = {"hard": {"requests.nvidia.com/gpu": gpus}, **selector}
    return kube("core/v1:ResourceQuota", name, metadata={"name": name, "namespace": namespace}, spec=spec)


def priority(name: str, value: int) -> Json:
    return kube("scheduling.k8s.io/v1:PriorityClass", name, metadata={"name": name}, value=value)


def slinky(kind: str, **spec: Any) -> Json:
    return kube(f"slinky.slurm.net/v1beta1:{kind}", kind.lower(), metadata={"name": "s"}, spec=spec)


def slurm_node_set(**properties: Any) -> Json:
    return {"type": SET, "name": "nodes", "properties": {"name": "nodes", "count": 2, **properties}}


CLUSTER: Json = {
    "type": "crusoe:index:KubernetesCluster",
    "name": "cluster",
    "properties": {"version": "1.33.4-cmk.43", "private": True},
}
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----\n"

CORPUS = [
    # GPU pools
    bad("half a host of A100s", pool(type="a100-80gb.4x"), refused="gpu-pool-whole-host"),
    bad("one L40S of ten", pool(type="l40s-48gb.1x"), refused="gpu-pool-whole-host"),
    bad("a slice in managed Slurm", slurm_node_set(type="a100-80gb.2x"), refused="gpu-pool-whole-host"),
    bad(
        "slices of a type that is never repaired either",
        pool(type="a40.2x"),
        refused="gpu-pool-whole-host",
    ),
    bad("a type that AutoClusters does not know", pool(type="a40.8x"), advised="gpu-pool-repairable"),
    bad("a type that nobody knows", pool(type="h900-1tb.8x"), advised="vm-type-known"),
    bad(
        "three pools, one of them wrong",
        pool("a"),
        pool("b", type="a100-80gb.1x"),
        pool("c", type="c1a.8x", publicIpType="dynamic"),
        refused="gpu-pool-whole-host",
    ),
    # AutoClusters
    bad("a misspelt action", pool(), repairs(XID_79="replace_node"), refused="autoclusters-actions"),
    bad("an issue with hyphens", pool(), repairs(**{"XID-79": "REPLACE_NODE"}), refused="autoclusters-actions"),
    bad("drained and left", pool(), repairs(XID_79="DRAIN"), refused="autoclusters-way-back"),
    bad("cordoned and left", pool(), repairs(XID_48="CORDON_NODE"), refused="autoclusters-way-back"),
    bad("a kernel's error", pool(), repairs(XID_13="REPLACE_NODE"), advised="autoclusters-application-error"),
    bad(
        "no pool that can be repaired",
        CLUSTER,
        pool(type="c1a.8x"),
        repairs(XID_79="REPLACE_NODE"),
        refused="autoclusters-pool-types",
    ),
    bad(
        "a cluster from before AutoClusters",
        {**CLUSTER, "properties": {"version": "1.31.7-cmk.10", "private": True}},
        pool(),
        {**repairs(XID_79="REPLACE_NODE"), "from": {"clusterId": "cluster"}},
        refused="autoclusters-version",
    ),
    bad(
        "repairs of CMK v1 on CMK v2",
        {**CLUSTER, "properties": {"version": "1.35.5", "private": True}},
        pool(),
        {**repairs(XID_79="REPLACE_NODE"), "from": {"clusterId": "cluster"}},
        refused="autoclusters-version",
    ),
    bad(
        "every host at work, and no reservation",
        pool(count=2),
        slinky("NodeSet", replicas=2, template={"spec": {"terminationGracePeriodSeconds": 300}}),
        repairs(False, XID_79="REPLACE_NODE"),
        refused="autoclusters-spare",
    ),
    bad(
        "models on every host, and no reservation",
        pool(count=2),
        deployment(container(gpus=1), replicas=11),
        repairs(False, XID_79="REPLACE_NODE"),
        refused="autoclusters-spare",
        advised="gpu-serving-disruption-budget",
    ),
    bad(
        "nobody says what the hosts are for",
        pool(count=2),
        repairs(False, XID_79="REPLACE_NODE"),
        refused="autoclusters-spare",
    ),
    bad(
        "consent for a slice",
        pool(type="a100-80gb.1x", consentMode="propose"),
        refused="gpu-pool-whole-host autoclusters-consent-type",
    ),
    bad(
        "repairs, and jobs that end",
        pool(),
        repairs(XID_79="REPLACE_NODE"),
        slinky("Controller", extraConf="KillWait=120\nJobRequeue=0"),
        refused="autoclusters-requeue slurm-requeue",
    ),
    bad(
        "repairs, and pods that die first",
        pool(),
        repairs(XID_79="REPLACE_NODE"),
        slinky("Controller", extraConf="KillWait=120"),
        slinky("NodeSet", replicas=1),
        refused="autoclusters-checkpoint-window",
    ),
    # Exposure
    bad("SSH for everybody", rule("0.0.0.0/0", destinationPorts=["22"]), refused="network-ingress-open"),
    bad("the API for half the world", rule("128.0.0.0/1"), refused="network-ingress-open"),
    bad("the office and everybody", rule("203.0.113.0/24", "0.0.0.0/0"), refused="network-ingress-open"),
    bad("GPU nodes with an address each", pool(publicIpType="dynamic"), refused="gpu-node-public-ip"),
    bad("GPU nodes, nothing said", pool(publicIpType=None), refused="gpu-node-public-ip"),
    bad(
        "a model for everybody",
        kube("core/v1:Service", spec={"type": "LoadBalancer", "ports": [{"port": 80}]}),
        refused="load-balancer-open",
    ),
    bad(
        "Slurm's API for everybody",
        slinky("RestApi", service={"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["0.0.0.0/0"]}}),
        refused="load-balancer-open",
    ),
    bad(
        "a list of Services, one open",
        kube(
            "core/v1:ServiceList",
            items=[
                {"kind": "Service", "spec": {"type": "ClusterIP"}},
                {"kind": "Service", "spec": {"type": "LoadBalancer"}},
            ],
        ),
        refused="load-balancer-open",
    ),
    bad(
        "managed Slurm's login as it comes",
        kube("slurm.crusoe.ai/v1alpha1:SlurmCluster", spec={"loginSet": {"replicas": 1}}),
        refused="slurm-login-open",
    ),
    bad(
        "an API that asks nobody",
        {**CLUSTER, "properties": {"private": True, "apiserverExtraArgs": {"authorization-mode": "AlwaysAllow"}}},
        refused="cluster-api-anonymous",
    ),
    bad("an API in public", {**CLUSTER, "properties": {}}, advised="cluster-api-public"),
    # Slurm
    bad(
        "no requeue in the chart's values",
        kube(
            "helm.sh/v3:Release",
            chart="oci://ghcr.io/slinkyproject/charts/slurm",
            version="1.2.1",
            values={"controller": {"extraConfMap": {"JobRequeue": 0, "KillWait": 90}}},
        ),
        refused="slurm-requeue",
    ),
    bad("half a minute to save", slinky("Controller", extraConf="JobRequeue=1\n"), refused="slurm-kill-wait"),
    bad(
        "users with sudo",
        kube("slurm.crusoe.ai/v1alpha1:SlurmUser", spec={"fullName": "Ada", "disableSudo": False}),
        refused="slurm-user-sudo",
    ),
    bad(
        "root by key and anybody by password",
        slinky("LoginSet", extraSshdConfig="PermitRootLogin yes\nPasswordAuthentication yes"),
        refused="slurm-login-root",
    ),
    bad(
        "a login pod with the host's rights",
        slinky("LoginSet", login={"image": "login:26.05.1", "securityContext": {"privileged": True}}),
        refused="slurm-login-root",
    ),
    bad("whatever image is newest", deployment(container("vllm/vllm-openai")), refused="image-pinned"),
    bad(
        "an init container that moves",
        deployment(container(), initContainers=[container("registry.example.com:5000/tool:latest")]),
        refused="image-pinned",
    ),
    bad(
        "slurmd of the day", slinky("NodeSet", slurmd={"image": "ghcr.io/slinkyproject/slurmd"}), refused="image-pinned"
    ),
    bad(
        "a chart of any version",
        kube("helm.sh/v4:Chart", chart="oci://quay.io/jetstack/charts/cert-manager"),
        refused="chart-pinned",
    ),
    bad(
        "a chart of a range",
        kube(
            "helm.sh/v3:Release", chart="kueue", version="^0.17", repositoryOpts={"repo": "https://charts.example.com"}
        ),
        refused="chart-pinned",
    ),
    bad(
        "workers without a budget",
        slinky("NodeSet", replicas=2, workloadDisruptionProtection=False),
        refused="slurm-disruption-budget",
    ),
    bad(
        "eight replicas with GPUs and no budget",
        deployment(container(gpus=1), replicas=8),
        advised="gpu-serving-disruption-budget",
    ),
    # GPU sharing
    bad("one quota above all GPUs", pool(count=1), quota("a", 16), refused="gpu-quota-capacity"),
    bad("two quotas above all GPUs", pool(count=1), quota("a", 8), quota("b", 8), refused="gpu-quota-capacity"),
    bad(
        "two floors above all GPUs",
        pool(count=1),
        priority("floor", 1000),
        priority("borrow", 10),
        quota("a", 6, "floor"),
        quota("a", 10, "borrow"),
        quota("b", 6, "floor"),
        refused="gpu-quota-capacity",
    ),
    bad(
        "GPUs beside the shares",
        pool(count=1),
        quota("models", 8),
        deployment(container(gpus=2), namespace="playground"),
        refused="gpu-pod-outside-share",
    ),
    bad(
        "a nightly job in default",
        pool(count=1),
        quota("models", 8),
        kube(
            "batch/v1:CronJob",
            spec={"jobTemplate": {"spec": {"template": {"spec": {"containers": [container(gpus=1)]}}}}},
        ),
        refused="gpu-pod-outside-share",
    ),
    bad("a class above all", priority("vip", 1_000_000_000), refused="gpu-priority-above-floor"),
    # State
    bad(
        "a disk of production",
        {"type": "crusoe:index:StorageDisk", "properties": {"size": "1TiB"}},
        refused="production-protected",
        stack="prod-eu",
    ),
    bad(
        "a whole production",
        CLUSTER,
        pool(),
        pool("system", type="c1a.8x"),
        refused="production-protected",
        stack="prod",
    ),
    bad(
        "keys and workers of production",
        {"type": "crusoe:index:GeneratedSecret", "properties": {"length": 32}},
        slinky("NodeSet", replicas=1),
        refused="production-protected-slurm",
        stack="prod",
    ),
    bad(
        "a network that is made before it is deleted",
        {"type": "crusoe:index:VpcNetwork", "properties": {"cidr": "10.0.0.0/16"}, "deleteBeforeReplace": None},
        refused="named-delete-before-replace",
    ),
    # Cost
    bad("a zero too many", pool(count=2000), refused="gpu-limit-pool"),
    bad("many small ones", *(pool(f"p{n}", count=30) for n in range(4)), refused="gpu-limit-stack"),
    bad("autoscaling to the sky", pool(count=None, autoscaling={"min": 1, "max": 5000}), refused="gpu-limit-pool"),
    # Secrets
    bad("a key in a ConfigMap", kube("core/v1:ConfigMap", data={"id_rsa": KEY}), refused="secret-in-clear"),
    bad(
        "a key in a ConfigMap, in base64",
        kube("core/v1:ConfigMap", binaryData={"id_rsa": base64.b64encode(KEY.encode()).decode()}),
        refused="secret-in-clear",
    ),
    bad(
        "a token in the environment",
        deployment(container(env=[{"name": "HF_TOKEN", "value": "hf_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"}])),
        refused="secret-in-clear",
    ),
    bad(
        "a password in a chart's values",
        kube("helm.sh/v3:Release", chart="./charts/db", values={"auth": {"rootPassword": "Xk9#vQ2!mZ7pLw"}}),
        refused="secret-in-clear",
    ),
    bad(
        "a password in an address",
        kube("core/v1:ConfigMap", data={"url": "postgres://slurm:Tr0ub4dor@db.slurm.svc:5432/acct"}),
        refused="secret-in-clear",
    ),
    bad(
        "a Slack webhook in an annotation",
        kube(
            "core/v1:Namespace",
            metadata={"annotations": {"notify": "https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24}},
        ),
        refused="secret-in-clear",
    ),
    # Fabric
    bad("two H100 hosts apart", pool(type="h100-80gb-sxm-ib.8x", count=2), refused="fabric-partition"),
    bad(
        "managed Slurm's H200 hosts apart",
        slurm_node_set(type="h200-141gb-sxm-ib.8x", count=4),
        refused="fabric-partition",
    ),
    bad(
        "one that may become eight",
        pool(type="b200-180gb-sxm-ib.8x", count=None, autoscaling={"min": 1, "max": 8}),
        refused="fabric-partition",
    ),
    # Several at once
    bad(
        "a first try",
        rule("0.0.0.0/0"),
        pool(type="h100-80gb-sxm-ib.8x", count=2, publicIpType=None),
        deployment(container("vllm/vllm-openai:latest", gpus=8)),
        refused="network-ingress-open gpu-node-public-ip fabric-partition image-pinned",
    ),
    bad(
        "a Slurm from a blog",
        slinky("Controller", extraConf="JobRequeue=0"),
        slinky("LoginSet", extraSshdConfig="PermitRootLogin yes", service={"spec": {"type": "LoadBalancer"}}),
        refused="slurm-requeue slurm-kill-wait slurm-login-root load-balancer-open",
    ),
]
"""The bad programs."""

GOOD: list[tuple[str, tuple[Json, ...]]] = [
    ("GB200, four of four", (pool(type="gb200-186gb-nvl.4x"),)),
    ("one InfiniBand host alone", (pool(type="h100-80gb-sxm-ib.8x", count=1),)),
    ("CPU nodes with public IPs", (pool(type="c1a.8x", publicIpType="dynamic"),)),
    ("actions that are all off, on an old cluster", (CLUSTER, repairs(False, XID_79="OFF", XID_13="OFF"))),
    (
        "a model on one host of two, with ten GPUs each",
        (pool(count=2), deployment(container(gpus=10)), repairs(False, XID_79="REPLACE_NODE")),
    ),
    (
        "workers on CPU nodes beside a host to spare",
        (
            pool(count=2),
            slinky(
                "NodeSet",
                replicas=9,
                slurmd={"image": "slurmd:26.05.1", "resources": {"limits": {"cpu": 4}}},
                template={"spec": {"terminationGracePeriodSeconds": 300}},
            ),
            deployment(container(gpus=4)),
            repairs(False, XID_79="REPLACE_NODE"),
        ),
    ),
    ("everybody may go out", (rule("10.0.0.0/16", direction="egress", destinations=["0.0.0.0/0"]),)),
    ("everybody is kept out", (rule("0.0.0.0/0", action="deny"),)),
    ("a rule whose source is a subnet's id", (rule("00000000-0000-4000-8000-000000000009"),)),
    ("a chart in a folder", (kube("helm.sh/v3:Release", chart="./charts/slurm-operator"),)),
    (
        "an image by its digest",
        (deployment(container("vllm/vllm-openai@sha256:" + "0" * 64)),),
    ),
    ("a registry with a port", (deployment(container("registry.example.com:5000/job:1.4.2")),)),
    ("pods with GPUs where nothing is shared", (pool(), deployment(container(gpus=8)))),
    (
        "what gives way is promised to nobody",
        (
            pool(count=1),
            priority("floor", 1000),
            priority("borrow", 10),
            quota("a", 10, "floor"),
            quota("b", 10, "borrow"),
        ),
    ),
    ("quotas in a program without pools", (quota("a", 64),)),
    ("Kubernetes' own classes", (priority("system-node-critical", 2_000_001_000),)),
    (
        "a certificate, a public key and a path",
        (
            kube(
                "core/v1:ConfigMap",
                data={
                    "ca.crt": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
                    "ca.b64": base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n").decode(),
                    "key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPlaceholder ada",
                    "tokenPath": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                },
            ),
        ),
    ),
    (
        "a name of a Secret",
        (
            deployment(
                container(env=[{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}])
            ),
        ),
    ),
    ("another provider's resources", ({"type": "aws:s3/bucket:Bucket", "properties": {"bucket": "b"}},)),
]
"""Programs that are right, and come near to being refused."""
