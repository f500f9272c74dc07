"""Levels and exemptions: dated, of one resource, told on every run, and never wider than they say (C18)."""

from __future__ import annotations

import pytest

from policies import examples
from policies.pack import POLICIES
from policies.policy import Policy
from tests.policy.analyzer import Pack, urn

JUDGING = [policy for policy in POLICIES if not policy.name.startswith("exemption-")]
A, B = examples.pool("pool-a", type="a100-80gb.2x"), examples.pool("pool-b", type="a100-80gb.2x")
RULE = "gpu-pool-whole-host"


def exempt(resource: str, expires: str = "2999-12-31", reason: str = "moves in spring") -> dict[str, str]:
    return {"resource": resource, "reason": reason, "expires": expires}


@pytest.mark.parametrize("policy", JUDGING, ids=lambda policy: policy.name)
def test_every_policy_can_be_exempted_until_a_day(process: Pack, policy: Policy) -> None:
    process.configure()
    bad, stack = policy.bad.resources, policy.bad.stack
    at_fault = {each.resource for each in process.judge(*bad, stack=stack) if each.policy == policy.name}
    process.configure({policy.name: {"exemptions": [exempt(name) for name in at_fault]}})
    said = process.judge(*bad, stack=stack)
    assert [each for each in said if each.policy == policy.name] == []
    live = [each for each in said if each.policy == "exemption-live"]
    assert {each.resource for each in live} == at_fault
    assert all("left alone until 2999-12-31: moves in spring" in each.text for each in live)


@pytest.mark.parametrize("policy", JUDGING, ids=lambda policy: policy.name)
def test_every_policy_refuses_again_after_that_day(process: Pack, policy: Policy) -> None:
    process.configure()
    bad, stack = policy.bad.resources, policy.bad.stack
    at_fault = {each.resource for each in process.judge(*bad, stack=stack) if each.policy == policy.name}
    process.configure({policy.name: {"exemptions": [exempt(name, "2020-01-31") for name in at_fault]}})
    said = process.judge(*bad, stack=stack)
    refused = [each for each in said if each.policy == policy.name]
    assert {each.resource for each in refused} == at_fault
    assert {each.level for each in refused} == {policy.level}
    assert all("Its exemption ended on 2020-01-31: moves in spring" in each.text for each in refused)
    assert {each.resource for each in said if each.policy == "exemption-dead"} == at_fault


def test_an_exemption_is_for_one_resource_and_not_for_the_rule(process: Pack) -> None:
    process.configure({RULE: {"exemptions": [exempt("pool-a")]}})
    said = process.judge(A, B)
    assert {each.resource for each in said if each.policy == RULE} == {"pool-b"}
    assert {each.resource for each in said if each.policy == "exemption-live"} == {"pool-a"}


@pytest.mark.parametrize("name", ["pool-a-2", "pool-A", "pool", "pool-a "])
def test_a_renamed_resource_is_refused_and_the_dead_exemption_reported(process: Pack, name: str) -> None:
    process.configure({RULE: {"exemptions": [exempt("pool-a")]}})
    said = process.judge({**A, "name": name})
    assert {each.resource for each in said if each.policy == RULE} == {name}
    [dead] = [each for each in said if each.policy == "exemption-dead"]
    assert "gpu-pool-whole-host on pool-a: there is no such resource in this stack" in dead.text
    assert dead.level == "advisory"
    assert not [each for each in said if each.policy == "exemption-live"]


def test_a_urn_names_a_resource_as_well(process: Pack) -> None:
    process.configure({RULE: {"exemptions": [exempt(urn(A))]}})
    assert {each.resource for each in process.judge(A, B) if each.policy == RULE} == {"pool-b"}


def test_of_two_exemptions_the_longer_counts(process: Pack) -> None:
    process.configure({RULE: {"exemptions": [exempt("pool-a", "2020-01-31"), exempt("pool-a")]}})
    assert [each for each in process.judge(A) if each.policy == RULE] == []


def test_an_exemption_of_one_policy_is_none_of_another(process: Pack) -> None:
    process.configure({"gpu-node-public-ip": {"exemptions": [exempt("pool-a")]}})
    assert {each.resource for each in process.judge(A) if each.policy == RULE} == {"pool-a"}


@pytest.mark.parametrize("level", ["advisory", "mandatory", "disabled"])
def test_a_level_is_what_the_configuration_says(process: Pack, level: str) -> None:
    process.configure({RULE: level})
    found = [each.level for each in process.judge(A) if each.policy == RULE]
    assert found == ([] if level == "disabled" else [level])
