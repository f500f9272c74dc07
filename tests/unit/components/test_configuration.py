"""Reading the settings from Pulumi's configuration: one error with every fault, and no secret inside an object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pulumi
import pytest

from components.configuration import load
from components.platform import PlatformSettings
from tests.unit.components.entry import run_entry
from tests.unit.components.support import PROJECT, Deployment, deploy, settings_document, settings_of

KEY = f"{PROJECT}:platform"


def loaded(value: str | None, *, stack: str = "dev", secret_keys: Sequence[str] = ()) -> PlatformSettings:
    found: list[PlatformSettings] = []

    def program() -> dict[str, pulumi.Input[object]]:
        found.append(load())
        return {}

    deploy(program, stack=stack, config={} if value is None else {KEY: value}, secret_keys=secret_keys)
    return found[0]


def refusal(value: str | None, *, secret_keys: Sequence[str] = ()) -> str:
    with pytest.raises(pulumi.RunError) as caught:
        loaded(value, secret_keys=secret_keys)
    return str(caught.value)


def test_reads_the_one_key() -> None:
    assert loaded(json.dumps(settings_document())) == settings_of(settings_document(), "dev")


def test_every_fault_has_its_line() -> None:
    lines = refusal(json.dumps(settings_document(location="x", protect="on"))).splitlines()
    assert lines[0] == "the settings of stack dev can't be used, and nothing was changed:"
    assert [line.split(":")[0] for line in lines[1:]] == ["  platform.protect", "  platform.location"]


@pytest.mark.parametrize("value", [None, "not JSON", "3", "[]", "null"])
def test_anything_but_a_map_is_refused(value: str | None) -> None:
    first, line = refusal(value).splitlines()
    assert first.startswith("the settings of stack dev")
    assert line.startswith("  platform: not a map of settings")


def test_nothing_is_declared_when_a_setting_is_wrong() -> None:
    right, wrong = settings_document(), settings_document(protect="on")
    for document, declares in ((right, True), (wrong, False)):
        deployment = Deployment()
        with nullcontext() if declares else pytest.raises(pulumi.RunError):
            deploy(run_entry, stack="dev", config={KEY: json.dumps(document)}, into=deployment)
        assert bool(deployment.resources) is declares


def test_an_encrypted_value_inside_is_refused_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.dev.yaml").write_text(
        "config:\n  other: {secure: x}\n  platform:\n    cluster: {version: '1', token: {secure: abc}}\n"
        "    list: [{a: {secure: abc}}, 1]\n"
    )
    document = json.dumps({"cluster": {"token": "hunter2"}, "list": [{"a": "hunter3"}, 1]})
    message = refusal(document, secret_keys=[KEY])
    assert message.startswith("platform.cluster.token, platform.list[0].a is encrypted")
    assert "pulumi config rm --path 'platform.cluster.token' --stack dev" in message
    assert "pulumi config rm --path 'platform.list[0].a' --stack dev" in message
    assert "pulumi config set --secret" in message
    assert "hunter" not in message
    assert "other" not in message


@pytest.mark.parametrize("content", [None, "a: [", "[]", "config: []", "config: {x:platform: {secure: a}}"])
def test_an_encrypted_value_is_refused_whatever_the_file(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "Pulumi.dev.yaml").write_text(content)
    message = refusal(json.dumps(settings_document()), secret_keys=[KEY])
    assert message.startswith("platform" if content and "secure" in content else "platform.<path> is encrypted")


def test_other_secrets_do_not_disturb() -> None:
    assert loaded(json.dumps(settings_document()), secret_keys=[f"{PROJECT}:token"])
