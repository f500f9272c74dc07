"""docs/policies.md is what the policies say, and each policy says enough."""

from __future__ import annotations

import pytest

from policies import docs
from policies.pack import BY_NAME, POLICIES
from policies.policy import LEVELS, Policy, StackPolicy


def test_the_committed_page_is_current() -> None:
    assert docs.FILE.read_text(encoding="utf-8") == docs.document(), "run: python -m policies.docs"


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_each_policy_has_its_section_and_says_enough(policy: Policy) -> None:
    page = docs.FILE.read_text(encoding="utf-8")
    assert page.count(f"\n### {policy.name}\n") == 1
    assert all(each.endswith(".") for each in (policy.refuses, policy.why, policy.fix))
    assert policy.level in LEVELS
    assert all({"default", "description", "type"} <= schema.keys() for schema in policy.parameters.values())
    if isinstance(policy, StackPolicy):
        assert policy.already.endswith(".")


def test_no_two_policies_share_a_name() -> None:
    assert len(BY_NAME) == len(POLICIES)
