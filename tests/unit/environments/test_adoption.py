"""Which creates of a preview are in the cloud already, and what is left of a stack."""

from __future__ import annotations

from typing import Any, cast

import pytest

from crusoe.client import Client
from environments.adoption import COLLECTIONS, AdoptionError, Create, adopt, creates, existing, left

URN = "urn:pulumi:day::p::gpuplatform:platform:Platform$crusoe:index:{}::{}"


def step(kind: str, name: str, called: object, op: str = "create") -> dict[str, Any]:
    new = {"urn": URN.format(kind, name), "type": f"crusoe:index:{kind}", "inputs": {"name": called}}
    return {"op": op, "newState": new}


class Lists:
    """A client that knows lists."""

    def __init__(self, **lists: list[dict[str, str]]) -> None:
        self._lists = {COLLECTIONS[kind]: items for kind, items in lists.items()}

    def list(self, path: str) -> list[dict[str, str]]:
        return self._lists.get(path, [])


def client(**lists: list[dict[str, str]]) -> Client:
    return cast("Client", Lists(**lists))


def test_creates_of_named_kinds_are_read() -> None:
    steps = [
        step("VpcNetwork", "vpc", "lab"),
        step("KubernetesNodePool", "pool", "lab-cpus"),
        step("KubernetesCluster", "cmk", "lab", op="same"),
        step("AutoClustersConfig", "config", None),
        {"op": "create", "newState": {"type": "kubernetes:core/v1:Secret", "inputs": {"name": "x"}}},
    ]
    assert creates({"steps": steps}) == [
        Create("VpcNetwork", "vpc", "lab"),
        Create("KubernetesNodePool", "pool", "lab-cpus"),
    ]


def test_what_is_no_good_preview_is_said() -> None:
    with pytest.raises(AdoptionError, match="has no steps"):
        creates({"version": 1})
    failed = {"steps": [], "diagnostics": [{"severity": "warning"}, {"severity": "error", "message": "no such type"}]}
    with pytest.raises(AdoptionError, match=r"failed.*no such type"):
        creates(failed)


def test_what_has_the_name_and_kind_is_adopted_and_the_rest_is_new() -> None:
    wanted = [
        Create("VpcNetwork", "vpc", "lab"),
        Create("KubernetesCluster", "cmk", "lab"),
        Create("VpcSubnet", "s", "x"),
    ]
    cloud = client(VpcNetwork=[{"name": "lab", "id": "1"}, {"name": "other", "id": "2"}], VpcSubnet=[])
    found = adopt(wanted, existing(cloud, wanted))
    assert found.ids == {"vpc": "1"}
    assert found.lines == ("adopted  VpcNetwork lab 1", "new      KubernetesCluster lab", "new      VpcSubnet x")


def test_two_of_one_name_are_not_chosen_from() -> None:
    wanted = [Create("VpcNetwork", "vpc", "lab")]
    cloud = client(VpcNetwork=[{"name": "lab", "id": "1"}, {"name": "lab", "id": "2"}])
    with pytest.raises(AdoptionError, match=r"2 objects .* called lab \(1, 2\)"):
        adopt(wanted, existing(cloud, wanted))


def test_what_is_left_is_this_stacks_alone() -> None:
    names = ["lab-network", "lab-prod-network", "labor-network", "lab"]
    cloud = client(VpcNetwork=[{"name": name, "id": "1"} for name in names])
    assert left(cloud, "lab", ["lab", "lab-prod", "x"]) == ["VpcNetwork lab-network (1)"]
