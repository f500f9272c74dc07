"""A corpus of bad programs, each refused by exactly the policies it should be, and of good ones that come near."""

from __future__ import annotations

import pytest

from policies.pack import POLICIES
from tests.policy.analyzer import Json, Pack, secret
from tests.policy.corpus import CORPUS, GOOD, Bad


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.says)
def test_a_bad_program_is_refused_by_exactly_its_policies(pack: Pack, case: Bad) -> None:
    said = pack.judge(*case.resources, stack=case.stack)
    assert {each.policy for each in said if each.level == "mandatory"} == case.refused
    assert {each.policy for each in said if each.level == "advisory" and not each.is_unknown} == case.advised


@pytest.mark.parametrize(("says", "resources"), GOOD, ids=[says for says, _ in GOOD])
def test_a_good_program_passes(pack: Pack, says: str, resources: tuple[Json, ...]) -> None:
    assert pack.judge(*resources, stack="team") == [], says


def test_the_corpus_is_large_and_meets_every_policy() -> None:
    assert len(CORPUS) >= 40
    met = {name for case in CORPUS for name in case.refused | case.advised}
    assert met == {policy.name for policy in POLICIES if not policy.name.startswith("exemption-")}


def test_the_same_value_as_a_secret_passes_and_no_message_repeats_it(pack: Pack) -> None:
    canary = "hf_" + "Q7wE2rT9yU4iO1pA6sD3fG8hJ5kL0zXc"

    def config_map(value: object) -> Json:
        return {"type": "kubernetes:core/v1:ConfigMap", "name": "c", "properties": {"data": {"hub": value}}}

    assert pack.judge(config_map(secret(canary))) == []
    [said] = pack.judge(config_map(canary))
    assert canary not in said.text
    assert "a token of Hugging Face" in said.text
