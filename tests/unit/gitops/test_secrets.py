"""No secret shows in any output, in whatever way it came in: each form of it is looked for in each output."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops import diagram, markdown, report_json
from tests.unit.gitops.making import Json, diagnostic, review, secret, state, step, summary, urn, violation

THING = "crusoe:index:StorageDisk"
KUBERNETES_SECRET = "kubernetes:core/v1:Secret"

# Long enough to be a secret, and with what JSON, base64, Markdown and XML write in another way.
# The middle is nobody else's: Hypothesis draws words out of the program too, such as the beginning of `Kubernetes`.
canaries = (
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=6, max_size=20)
    .filter(lambda text: text == text.strip())
    .map(lambda text: f"{text[:3]}\u2021q7\u2021{text[3:]}")
)
keys = st.sampled_from(["kubeconfig", "name", "value", "a.b/c", "settings"])
Wrap = Callable[[object], object]
"""Puts a value deeper into a property."""

WRAPS: list[Wrap] = [lambda x: x, lambda x: {"deep": x}, lambda x: ["first", x], lambda x: [{"deep": [x]}]]
wraps = st.sampled_from(WRAPS)


def forms(canary: str) -> set[str]:
    """How a canary may show."""
    raw = canary.encode()
    encoded = base64.b64encode(raw).decode()
    return {
        canary,
        json.dumps(canary)[1:-1],
        json.dumps(canary, ensure_ascii=False)[1:-1],
        encoded,
        encoded.rstrip("="),
    }


def outputs(told: list[Json], status: int = 0) -> str:
    seen = review(told, status)
    json_text = report_json.dump(seen.report)
    # As a program that reads the JSON has it, too.
    leaves = "\n".join(_leaves(json.loads(json_text)))
    drawn = diagram.draw("shop", "prod", seen.resources)
    return "\n".join([markdown.render(seen.report), json_text, leaves, drawn])


def _leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for item in cast("Json", value).values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in cast("list[object]", value) for leaf in _leaves(item)]
    return [str(value)]


def shown(canary: str, told: list[Json], status: int = 0) -> list[str]:
    text = outputs(told, status)
    return [form for form in forms(canary) if form in text]


@given(canary=canaries, key=keys, wrap=wraps, side=st.sampled_from(["old", "new", "both"]), detailed=st.booleans())
def test_a_secret_on_either_side_hides_both(canary: str, key: str, wrap: Wrap, side: str, detailed: bool) -> None:
    hidden, clear = wrap(secret(canary)), wrap(canary)
    old = state(THING, "it", {key: hidden if side in ("old", "both") else clear, "size": 1})
    new = state(THING, "it", {key: hidden if side in ("new", "both") else clear, "size": 2})
    diff = {key: "update"} if detailed else None
    told = [
        step("update", old, new, diff),
        diagnostic(f"it said {canary}", "warning"),
        violation(f"bad: {canary}", "advisory"),
    ]
    assert shown(canary, [*told, summary()]) == []


@given(canary=canaries, echoed=st.sampled_from(["plain", "base64", "json"]))
def test_what_is_secret_in_one_resource_is_hidden_in_another_and_in_messages(canary: str, echoed: str) -> None:
    raw = {"plain": canary, "base64": base64.b64encode(canary.encode()).decode(), "json": json.dumps({"k": canary})}[
        echoed
    ]
    told = [
        step("create", None, state(THING, "one", {"password": secret(canary)})),
        step("create", None, state("kubernetes:core/v1:ConfigMap", "two", {"data": {"file": f"x={raw};"}})),
        diagnostic(f"refused: {raw}"),
        summary("failed"),
    ]
    assert shown(canary, told, 1) == []


@given(
    canary=canaries, field=st.sampled_from(["data", "stringData"]), op=st.sampled_from(["update", "create", "delete"])
)
def test_a_kubernetes_secret_that_came_back_in_clear_stays_hidden(canary: str, field: str, op: str) -> None:
    held = base64.b64encode(canary.encode()).decode() if field == "data" else canary
    old = state(KUBERNETES_SECRET, "jwt", {field: {"jwt.key": held}, "metadata": {"name": "jwt"}})
    new = state(KUBERNETES_SECRET, "jwt", {field: {"jwt.key": secret()}, "metadata": {"name": "jwt"}})
    told = {
        "update": step("update", old, new, {f'{field}["jwt.key"]': "update"}),
        "create": step("create", None, old),
        "delete": step("delete", old, None),
    }[op]
    assert shown(canary, [told, summary()]) == []
    if op == "update":
        assert 'jwt.key"]: [secret]' in outputs([told, summary()]), "which key changed is told"


@pytest.mark.parametrize("name", ["password", "dbPassword", "secretKey", "SECRET_KEY", "kubeconfig", "token", "apiKey"])
def test_a_name_that_says_secret_hides_its_text(name: str) -> None:
    told = [step("create", None, state(THING, "it", {name: "canary-canary"})), summary()]
    assert shown("canary-canary", told) == []


@pytest.mark.parametrize("name", ["tokenName", "passwordSecret", "keyVersion", "sshPublicKey", "secretName", "tokens"])
def test_a_name_that_only_mentions_one_does_not(name: str) -> None:
    told = [step("create", None, state(THING, "it", {name: "canary-canary"})), summary()]
    assert shown("canary-canary", told)


@pytest.mark.parametrize("line_break", ["\n", "\\n", "\r\n"])
def test_a_private_key_is_hidden_wherever_it_is(line_break: str) -> None:
    block = line_break.join(["-----BEGIN RSA PRIVATE KEY-----", "MIIEcanarycanary", "-----END RSA PRIVATE KEY-----"])
    encoded = base64.b64encode(block.encode()).decode()
    for text in (block, f"clusters: []\nuser:\n  key: {encoded}\n"):
        told = [
            step("create", None, state("pulumi:providers:kubernetes", "it", {"content": text})),
            diagnostic(f"can't read {text}"),
            summary("failed"),
        ]
        seen = outputs(told, 1)
        assert "MIIEcanarycanary" not in seen
        assert encoded not in seen


def test_a_password_in_an_address_is_hidden() -> None:
    address = "postgres://slurm:canary-canary@db.example.com/slurm"
    told = [step("create", None, state(THING, "it", {"address": address})), diagnostic(address, "warning"), summary()]
    seen = outputs(told)
    assert "canary-canary" not in seen
    assert "db.example.com" in seen


def test_settings_are_never_told() -> None:
    prelude: Json = {"sequence": 0, "preludeEvent": {"config": {"shop:password": "canary-canary"}}}
    assert shown("canary-canary", [prelude, summary()]) == []


def test_what_is_not_known_is_named_so() -> None:
    from tests.unit.gitops.making import UNKNOWN

    old, new = state(THING, "it", {"subnetId": "s-1"}), state(THING, "it", {"subnetId": UNKNOWN})
    seen = outputs([step("update", old, new, {"subnetId": "update"}), summary()])
    assert UNKNOWN not in seen
    assert "[unknown until it is made]" in seen


def test_a_urn_is_told_as_it_is() -> None:
    seen = outputs([step("create", None, state(THING, "it", {})), summary()])
    assert urn(THING, "it") in seen
