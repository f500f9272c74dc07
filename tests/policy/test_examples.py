"""Each policy's own examples: the good one passes whole, the bad one is told of by that policy and no other."""

from __future__ import annotations

import pytest

from policies.exemptions import POLICIES as OF_EXEMPTIONS
from policies.pack import POLICIES
from policies.policy import Policy
from tests.policy.analyzer import Pack

JUDGING = [policy for policy in POLICIES if policy not in OF_EXEMPTIONS]


@pytest.mark.parametrize("policy", JUDGING, ids=lambda policy: policy.name)
def test_the_good_example_passes(pack: Pack, policy: Policy) -> None:
    assert [
        each for each in pack.judge(*policy.good.resources, stack=policy.good.stack) if each.policy == policy.name
    ] == []
    assert pack.refused_by(*policy.good.resources, stack=policy.good.stack) == set()


@pytest.mark.parametrize("policy", JUDGING, ids=lambda policy: policy.name)
def test_the_bad_example_is_told_of(pack: Pack, policy: Policy) -> None:
    said = [each for each in pack.judge(*policy.bad.resources, stack=policy.bad.stack) if each.policy == policy.name]
    assert said
    assert {each.level for each in said} == {policy.level}
    for each in said:
        assert policy.refuses in each.text
        assert f"Why: {policy.why}" in each.text
        assert f"docs/policies.md#{policy.name}" in each.text
        assert each.resource
        assert not each.is_unknown
