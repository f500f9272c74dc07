"""The cluster: what is declared, who gets in, what lives inside, and which settings are refused."""

from __future__ import annotations

import pulumi
import pytest
from pulumi_kubernetes.apiextensions import CustomResource

from components.platform import Platform
from tests.unit.components.support import (
    KUBECONFIG,
    STACK,
    Deployment,
    Json,
    deploy,
    deploy_platform,
    faults,
    settings_document,
    settings_of,
)

OIDC = {"issuerUrl": "https://login.example.com", "clientId": "gpu"}
V1, V2 = "1.33.4-cmk.43", "1.35.5"


def document(**changes: object) -> Json:
    return settings_document(cluster={"version": V1, **changes})


def deployed(**changes: object) -> Deployment:
    return deploy_platform(document(**changes))


def test_the_cluster() -> None:
    arguments = {f"{component}ExtraArgs": {"v": "2"} for component in ("apiserver", "scheduler", "controllerManager")}
    cluster = deployed(**arguments).one("platform-cluster-cmk")
    assert cluster.inputs == {
        "name": "test-cluster",
        "location": "us-east1-a",
        "version": V1,
        "subnetId": "platform-network-subnet-id",
        "clusterCidr": "10.232.0.0/14",
        "serviceClusterIpRange": "10.236.0.0/16",
        "nodeCidrMaskSize": 24,
        "addOns": ["crusoe_csi", "nvidia_gpu_operator", "nvidia_network_operator"],
        "private": False,
        **arguments,
        "adoptExisting": True,
    }
    assert cluster.protect


def test_routing_on_v2() -> None:
    assert deployed(version=V2, routingMode="native").one("platform-cluster-cmk").inputs["routingMode"] == "native"


def test_the_order_of_add_ons_in_the_settings_does_not_reach_the_service() -> None:
    names = ["nvidia_network_operator", "cluster_autoscaler", "nvidia_gpu_operator"]
    one, two = (deployed(addOns=order).one("platform-cluster-cmk").inputs["addOns"] for order in (names, names[::-1]))
    assert one == two == sorted(names)


def test_sign_in_through_an_identity_provider() -> None:
    oidc = deployed(oidc={**OIDC, "usernamePrefix": "oidc:"}).one("platform-cluster-cmk").inputs["oidc"]
    assert oidc == {**OIDC, "usernameClaim": "sub", "usernamePrefix": "oidc:", "groupsClaim": "groups"}


def test_a_name_given_by_hand_is_never_adopted() -> None:
    inputs = deployed(name="shared").one("platform-cluster-cmk").inputs
    assert (inputs["name"], inputs["adoptExisting"]) == ("shared", False)


def test_one_kubernetes_provider_that_is_never_replaced() -> None:
    deployment = deployed(oidc=OIDC, viewers=["team"])
    (provider,) = [each for each in deployment.resources if each.type == "pulumi:providers:kubernetes"]
    assert provider.inputs == {
        "kubeconfig": KUBECONFIG,
        "clusterIdentifier": "platform-cluster",
        # A Secret that is replaced takes along what it owns, such as the tokens of Slurm.
        "enableConfigMapMutable": "true",
        "enableSecretMutable": "true",
    }
    assert "kubeconfig" in provider.secrets
    assert provider.ignore_changes == ()
    inside = [each for each in deployment.resources if each.type.startswith("kubernetes:")]
    assert inside
    assert {each.provider for each in inside} == {provider.urn}


def test_what_is_inside_goes_and_comes_with_the_cluster() -> None:
    deployment = deployed(oidc=OIDC, viewers=["team"], operators=["platform"])
    cluster = deployment.one("platform-cluster-cmk")
    inside = [each for each in deployment.resources if each.type.startswith("kubernetes:")]
    assert {each.deleted_with for each in inside} == {cluster.urn}
    assert {each.replacement_trigger for each in inside} == {"platform-cluster-cmk-id"}
    assert all(each.delete_before_replace for each in inside)


def test_later_parts_put_their_objects_inside_the_same_way() -> None:
    def program() -> dict[str, pulumi.Input[object]]:
        platform = Platform("platform", settings_of(document()), stack=STACK, secrets=pulumi.Config().require_secret)
        first = CustomResource("first", api_version="example.com/v1", kind="A", opts=platform.cluster.inside(platform))
        options = platform.cluster.inside(platform, depends_on=[first])
        CustomResource("second", api_version="example.com/v1", kind="A", opts=options)
        return {}

    deployment = deploy(program)
    first, second = deployment.one("first"), deployment.one("second")
    cluster, provider = deployment.one("platform-cluster-cmk"), deployment.one("platform-cluster-kubernetes")
    for each in (first, second):
        assert (each.provider, each.deleted_with, each.delete_before_replace) == (provider.urn, cluster.urn, True)
        assert each.replacement_trigger == "platform-cluster-cmk-id"
        assert each.parent == deployment.one("platform").urn
    assert first.urn in second.depends_on


def roles(deployment: Deployment) -> dict[str, set[str]]:
    """Groups by the role that they have."""
    return {
        binding.inputs["roleRef"]["name"]: {subject["name"] for subject in binding.inputs["subjects"]}
        for binding in deployment.of("ClusterRoleBinding")
    }


def test_groups_have_their_roles_and_operators_are_viewers_too() -> None:
    deployment = deployed(oidc=OIDC, viewers=["team"], operators=["platform"])
    assert roles(deployment) == {
        "view": {"team", "platform"},
        "gpuplatform-viewer": {"team", "platform"},
        "gpuplatform-operator": {"platform"},
    }
    defined = {role.inputs["metadata"]["name"] for role in deployment.of("ClusterRole")}
    assert defined == {"gpuplatform-viewer", "gpuplatform-operator"}
    view = deployment.one("platform-cluster-grant-view").inputs
    rbac = "rbac.authorization.k8s.io"
    assert view["metadata"] == {"name": "gpuplatform-grant-view"}
    assert view["roleRef"] == {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}
    assert view["subjects"][0] == {"apiGroup": rbac, "kind": "Group", "name": "team"}


def test_viewers_alone() -> None:
    assert roles(deployed(oidc=OIDC, viewers=["team"])) == {"view": {"team"}, "gpuplatform-viewer": {"team"}}


def test_nobody_has_a_role_by_default() -> None:
    assert [each for each in deployed().resources if each.type.startswith("kubernetes:")] == []


def permissions(role: str) -> set[tuple[str, str, str]]:
    deployment = deployed(oidc=OIDC, operators=["platform"])
    (found,) = [each for each in deployment.of("ClusterRole") if each.inputs["metadata"]["name"] == role]
    return {
        (group, resource, verb)
        for rule in found.inputs["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_viewers_only_read() -> None:
    assert {verb for _, _, verb in permissions("gpuplatform-viewer")} == {"get", "list", "watch"}
    assert ("", "nodes", "list") in permissions("gpuplatform-viewer")


def test_operators_can_drain_a_node() -> None:
    assert {("", "nodes", "patch"), ("", "pods/eviction", "create"), ("", "pods", "delete")} <= permissions(
        "gpuplatform-operator"
    )


@pytest.mark.parametrize("role", ["gpuplatform-viewer", "gpuplatform-operator"])
def test_no_role_is_a_way_to_secrets_or_to_more_rights(role: str) -> None:
    given = permissions(role)
    assert not {resource for _, resource, _ in given} & {"*", "secrets", "pods/exec", "pods/attach", "serviceaccounts"}
    assert not {group for group, _, _ in given} & {"*", "rbac.authorization.k8s.io"}
    assert not {verb for _, _, verb in given} & {"*", "impersonate", "escalate", "bind"}
    assert ("", "pods", "create") not in given
    assert not {("apps", kind, "patch") for kind in ("deployments", "statefulsets", "daemonsets")} & given


def test_a_private_cluster_says_where_up_must_run() -> None:
    deployment = deployed(private=True)
    assert deployment.one("platform-cluster-cmk").inputs["private"] is True
    (line,) = deployment.log
    assert "inside the VPC only" in line
    assert "10.0.0.0/16" in line
    assert deployed().log == []


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"version": "1.33"}, "version", "not a cluster version"),
        ({"version": 1.33}, "version", "YAML reads this as a number"),
        ({"version": "v1.33.4-cmk.43"}, "version", "not a cluster version"),
        ({"name": "my cluster"}, "name", "other characters"),
        ({"routingMode": "overlay"}, "routingMode", "CMK v1 has no routingMode"),
        ({"addOns": ["crusoe_csi"]}, "addOns", "'nvidia_gpu_operator' is missing"),
        ({"addOns": ["nvidia_gpu_operator", "nvidia_network_operatr"]}, "addOns[1]", "not a known add-on"),
        ({"addOns": ["nvidia_gpu_operator", "nvidia_gpu_operator"]}, "addOns[1]", "there twice"),
        ({"apiserverExtraArgs": {}}, "apiserverExtraArgs", "an empty map"),
        ({"schedulerExtraArgs": {"--v": "2"}}, "schedulerExtraArgs.--v", "leading dashes"),
        ({"controllerManagerExtraArgs": {}}, "controllerManagerExtraArgs", "an empty map"),
        ({"oidc": {**OIDC, "issuerUrl": "http://login.example.com"}}, "oidc.issuerUrl", "not an https address"),
        ({"oidc": {"issuerUrl": "https://login.example.com"}}, "oidc.clientId", "missing"),
        ({"viewers": ["team"]}, "viewers", "the cluster has none"),
        ({"operators": ["team"]}, "operators", "the cluster has none"),
        ({"oidc": OIDC, "operators": ["system:masters"]}, "operators[0]", "built-in group"),
        ({"clusterCidr": "8.8.0.0/14"}, "clusterCidr", "not private"),
        ({"serviceClusterIpRange": "8.8.0.0/16"}, "serviceClusterIpRange", "not private"),
        ({"clusterCidr": "10.0.0.0/14"}, "clusterCidr", "overlaps platform.network.cidr"),
        ({"serviceClusterIpRange": "10.232.0.0/16"}, "serviceClusterIpRange", "overlaps platform.cluster.clusterCidr"),
        ({"nodeCidrMaskSize": 8}, "nodeCidrMaskSize", "not one from 16 to 28"),
        ({"clusterCidr": "10.232.0.0/23"}, "nodeCidrMaskSize", "for 2 nodes, 4 are asked for"),
    ],
)
def test_refused(changes: dict[str, object], path: str, problem: str) -> None:
    found = faults(document(**changes))
    assert problem in found[f"platform.cluster.{path}"], found


def test_both_generations_are_understood() -> None:
    assert faults(document()) == {}
    assert faults(document(version=V2, routingMode="native")) == {}
