"""The configuration: its schema is what is committed, and one that is malformed is an error, never a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from policies import examples, settings
from policies.settings import Settings, SettingsError, load
from tests.policy.analyzer import Pack

RULE = "gpu-pool-whole-host"
GOOD = {"resource": "pool-a", "reason": "moves in spring", "expires": "2999-12-31"}

MALFORMED: list[tuple[Any, str]] = [
    ([], "not a map of policy names"),
    ({"gpu-pool-whole-hosts": "advisory"}, "Write gpu-pool-whole-host."),
    ({"all": "disabled"}, "there is no such policy"),
    ({RULE: "warn"}, "none of advisory, mandatory, disabled"),
    ({RULE: {"enforcementLevel": "remediate"}}, "none of advisory, mandatory, disabled"),
    ({RULE: 3}, 'Write "mandatory"'),
    ({RULE: {"exemption": [GOOD]}}, "there is no such setting. Known here: enforcementLevel, exemptions"),
    ({RULE: {"exemptions": GOOD}}, "not a list"),
    ({RULE: {"exemptions": ["pool-a"]}}, "exemptions[0].resource: missing"),
    ({RULE: {"exemptions": [{**GOOD, "reason": " "}]}}, "Say why it may stay as it is"),
    ({RULE: {"exemptions": [{**GOOD, "expires": None}]}}, "an exemption has to end"),
    ({RULE: {"exemptions": [{**GOOD, "expires": "2026-02-30"}]}}, "not a day"),
    ({RULE: {"exemptions": [{**GOOD, "expires": "31.12.2026"}]}}, "not a day"),
    ({RULE: {"exemptions": [{**GOOD, "until": "2026-12-31"}]}}, "exemptions[0].until: there is no such setting"),
    ({"exemption-live": {"exemptions": [GOOD]}}, "there is no such setting"),
    ({"gpu-limit-stack": {"maxGpus": "many"}}, "maxGpus: not a whole number from 0 on"),
    ({"gpu-limit-stack": {"maxGpus": -1}}, "not a whole number"),
    ({"gpu-limit-stack": {"maxGpusByType": {"a40.8x": 1.5}}}, "maxGpusByType.a40.8x: not a whole number"),
    ({"production-protected": {"stacks": "prod"}}, "stacks: not a list"),
    ({"production-protected": {"stacks": [1]}}, "stacks[0]: not a text"),
]


@pytest.mark.parametrize(("value", "said"), MALFORMED, ids=[said for _, said in MALFORMED])
def test_a_malformed_file_is_an_error(tmp_path: Path, value: Any, said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(value))
    with pytest.raises(SettingsError) as caught:
        load(tmp_path / "config.json")
    assert said in str(caught.value)


def test_a_file_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SettingsError, match=r"config\.json of the policy pack can't be read"):
        load(tmp_path / "config.json")


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.of({RULE: {"exemptions": [None]}, "nonsense": "advisory"})
    assert len(str(caught.value).splitlines()) == 5


@pytest.mark.parametrize(
    "config",
    [
        {"nonsense": "mandatory"},
        {RULE: {"exemptions": [{"resource": "x"}]}},
        {"gpu-limit-stack": {"maxGpus": "many"}},
        {RULE: {"level": "advisory"}},
    ],
)
def test_what_the_engine_lays_over_it_is_checked_too(process: Pack, config: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        process.configure(config)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined] - of a call's error
    assert "The policy pack's configuration is malformed" in str(caught.value.details())  # type: ignore[attr-defined] - the same


def test_parameters_take_effect(process: Pack) -> None:
    process.configure({"gpu-limit-pool": {"maxGpus": 10}, "gpu-limit-stack": {"maxGpusByType": {"l40s-48gb.10x": 30}}})
    assert process.refused_by(examples.pool(), stack="dev") == {"gpu-limit-pool"}
    process.configure({"gpu-limit-stack": {"maxGpusByType": {"l40s-48gb.10x": 30}}})
    assert process.refused_by(examples.pool(), examples.pool("b"), stack="dev") == {"gpu-limit-stack"}
    process.configure({"slurm-kill-wait": {"leastSeconds": 300}})
    assert process.refused_by(examples.controller("KillWait=90"), stack="dev") == {"slurm-kill-wait"}
    process.configure({"production-protected": {"stacks": ["live"]}})
    assert process.refused_by(examples.pool(), stack="prod") == set()
    assert process.refused_by(examples.pool(), stack="live") == {"production-protected"}
    process.configure({"gpu-priority-above-floor": {"floor": 5000}})
    above = examples.object_of("scheduling.k8s.io/v1:PriorityClass", "c", metadata={"name": "c"}, value=5001)
    assert process.refused_by(above) == {"gpu-priority-above-floor"}


def test_the_committed_schema_is_current() -> None:
    file = settings.FILE.with_name("config.schema.json")
    assert file.read_text(encoding="utf-8") == settings.schema_text(), "run: python -m policies.docs"


def test_the_shipped_configuration_exempts_nothing() -> None:
    assert not any(load().exemptions.values())
