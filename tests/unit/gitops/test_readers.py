"""Which key of a Secret changes and what restarts, without a word of its value."""

from __future__ import annotations

from typing import Any

import pytest

from gitops import markdown, report_json
from tests.unit.gitops.making import review, state, step, summary

SECRET, OLD, NEW = "kubernetes:core/v1:Secret", "the-old-canary", "the-new-canary"


def meta(name: str, namespace: str = "slurm") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}}


def pods(spec: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


BY_VOLUME = pods({"volumes": [{"name": "v", "secret": {"secretName": "jwt"}}]})
BY_VARIABLE = pods(
    {"containers": [{"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "jwt", "key": "a"}}}]}]}
)
BY_ENV_FROM = pods({"containers": [{"envFrom": [{"secretRef": {"name": "jwt"}}]}]})
BY_PULL = pods({"imagePullSecrets": [{"name": "jwt"}]})
BY_SLINKY = {"spec": {"jwtHs256KeyRef": {"name": "jwt", "key": "jwt.key"}}}
OTHER = pods({"volumes": [{"secret": {"secretName": "else"}}], "serviceAccountName": "jwt"})


def told(
    reader: dict[str, Any], op: str = "same", namespace: str = "slurm", path: str = 'stringData["jwt.key"]'
) -> Any:
    held = {**meta("jwt"), "stringData": {"jwt.key": OLD, "kept": "same-as-before"}}
    wanted = {**meta("jwt"), "stringData": {"jwt.key": NEW, "kept": "same-as-before"}}
    named = {**meta("daemon", namespace), **reader}
    changed = {path: "update"}
    daemon = state("kubernetes:apps/v1:Deployment", "daemon", named)
    events = [
        step("update", state(SECRET, "jwt", held), state(SECRET, "jwt", wanted), changed),
        step(op, daemon, daemon),
        summary(),
    ]
    return review(events).report


@pytest.mark.parametrize("reader", [BY_VOLUME, BY_VARIABLE, BY_ENV_FROM, BY_PULL, BY_SLINKY])
def test_what_reads_a_changed_key_is_named_and_the_value_is_not(reader: dict[str, Any]) -> None:
    report = told(reader)
    [change] = report.secrets
    assert (change.namespace, change.name, change.keys) == ("slurm", "jwt", ("jwt.key",))
    assert [(one.kind, one.name, one.restarts) for one in change.readers] == [("Deployment", "daemon", False)]
    text = markdown.render(report)
    assert "key `jwt.key`: Deployment `daemon` reads it, and goes on with the old value until restarted" in text
    assert not any(canary in text + report_json.dump(report) for canary in (OLD, NEW))


def test_what_the_plan_changes_too_restarts() -> None:
    assert "changes Deployment `daemon` too, which restarts" in markdown.render(told(BY_VOLUME, op="update"))


def test_without_a_detail_every_key_may_have_changed() -> None:
    assert told(BY_VOLUME, path="stringData").secrets[0].keys == ("jwt.key", "kept")


@pytest.mark.parametrize(("reader", "namespace"), [(OTHER, "slurm"), (BY_VOLUME, "elsewhere")])
def test_what_reads_another_secret_is_not_named(reader: dict[str, Any], namespace: str) -> None:
    report = told(reader, namespace=namespace)
    assert report.secrets[0].readers == ()
    assert "nothing in this plan reads it" in markdown.render(report)
