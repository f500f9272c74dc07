"""Where keys come from, and that they never show."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
from pathlib import Path

import pytest

from crusoe.client import ConfigurationError, Credentials, Secret
from crusoe.client.credentials import load
from crusoe.client.endpoint import DEFAULT_ENDPOINT
from tests.unit.crusoe.client.support import KEY_TEXT

KEYS = {"CRUSOE_ACCESS_KEY_ID": "KEY-ID", "CRUSOE_SECRET_KEY": KEY_TEXT}
CONFIG = f"""
profile = "work"

[default]
access_key_id = "DEFAULT"
secret_key = "{KEY_TEXT}"

[work]
access_key_id = "WORK"
secret_key = "{KEY_TEXT}"
api_endpoint = "https://api.crusoecloud.com/v1alpha5"
default_project = "team"

[lab]
access_key_id = "LAB"
secret_key = "{KEY_TEXT}"
api_endpoint = "http://127.0.0.1:8787/v1/"
"""


def write(home: Path, text: str = CONFIG, mode: int = 0o600) -> Path:
    file = home / ".crusoe" / "config"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_environment_alone(tmp_path: Path) -> None:
    write(tmp_path, "this is not TOML")
    found = load(KEYS, tmp_path)
    assert (found.access_key_id, found.secret_key.reveal(), found.endpoint, found.project) == (
        "KEY-ID",
        KEY_TEXT,
        None,
        None,
    )
    assert "CRUSOE_ACCESS_KEY_ID" in found.source


def test_environment_names_endpoint_and_project(tmp_path: Path) -> None:
    environ = {**KEYS, "CRUSOE_API_ENDPOINT": "http://127.0.0.1:8787/v1/", "CRUSOE_DEFAULT_PROJECT": " local "}
    found = load(environ, tmp_path)
    assert (found.endpoint, found.project) == ("http://127.0.0.1:8787/v1", "local")


@pytest.mark.parametrize(
    ("environ", "key", "endpoint"),
    [
        ({}, "WORK", DEFAULT_ENDPOINT),
        ({"CRUSOE_PROFILE": "lab"}, "LAB", "http://127.0.0.1:8787/v1"),
        # A profile that names no endpoint belongs to Crusoe's own.
        ({"CRUSOE_PROFILE": "default"}, "DEFAULT", DEFAULT_ENDPOINT),
        ({"CRUSOE_API_ENDPOINT": "http://localhost:1/v1"}, "WORK", "http://localhost:1/v1"),
    ],
)
def test_profiles(tmp_path: Path, environ: dict[str, str], key: str, endpoint: str) -> None:
    write(tmp_path)
    found = load(environ, tmp_path)
    assert (found.access_key_id, found.endpoint) == (key, endpoint)
    assert str(tmp_path) in found.source


def test_home_is_taken_from_the_environment(tmp_path: Path) -> None:
    write(tmp_path)
    assert load({"HOME": str(tmp_path)}).project == "team"


def test_a_profile_asked_for_beside_keys_gives_the_rest(tmp_path: Path) -> None:
    write(tmp_path)
    found = load({**KEYS, "CRUSOE_PROFILE": "work"}, tmp_path)
    assert (found.access_key_id, found.project) == ("KEY-ID", "team")


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_half_a_key_is_not_completed_from_the_file(tmp_path: Path, missing: str) -> None:
    write(tmp_path)
    with pytest.raises(ConfigurationError, match=f"{missing} is not"):
        load({name: value for name, value in KEYS.items() if name != missing}, tmp_path)


@pytest.mark.parametrize(
    ("environ", "text", "said"),
    [
        ({}, None, "No Crusoe access key was found"),
        ({}, "", "No Crusoe access key was found"),
        ({}, "[default]\naccess_key_id = 'x'", "No Crusoe access key was found"),
        ({"CRUSOE_PROFILE": "nosuch"}, CONFIG, "has no profile 'nosuch'; it has 'default', 'lab', 'work'"),
        ({"CRUSOE_PROFILE": "work"}, None, "is missing"),
        ({}, "profile = [", "is not valid TOML"),
        ({}, "default = 3", "has no profile 'default'"),
        ({}, "[default]\naccess_key_id = 5\nsecret_key = 'abcd'", "access_key_id in .* must be text"),
        ({**KEYS, "CRUSOE_SECRET_KEY": "not base64!"}, None, "CRUSOE_SECRET_KEY in the environment"),
        ({**KEYS, "CRUSOE_ACCESS_KEY_ID": "two words"}, None, "no Crusoe key id has"),
        ({**KEYS, "CRUSOE_ACCESS_KEY_ID": "line\nbreak"}, None, "no Crusoe key id has"),
        ({**KEYS, "CRUSOE_API_ENDPOINT": "http://api.example.com/v1"}, None, "plain http"),
    ],
)
def test_wrong_sources_are_told_in_one_sentence(
    tmp_path: Path, environ: dict[str, str], text: str | None, said: str
) -> None:
    if text is not None:
        write(tmp_path, text)
    with pytest.raises(ConfigurationError, match=said) as caught:
        load(environ, tmp_path)
    assert "not base64!" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_home_at_all() -> None:
    with pytest.raises(ConfigurationError, match="No Crusoe access key was found"):
        load({})


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    (tmp_path / ".crusoe" / "config").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="can't be read"):
        load({}, tmp_path)
    (tmp_path / ".crusoe" / "config").rmdir()
    (tmp_path / ".crusoe" / "config").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load({}, tmp_path)


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True), (0o644, True)])
def test_a_file_that_others_can_read_is_warned_about(tmp_path: Path, mode: int, warned: bool) -> None:
    file = write(tmp_path, mode=mode)
    warnings = load({}, tmp_path).warnings
    assert bool(warnings) is warned
    if warned:
        assert f"chmod 600 {file}" in warnings[0]


def test_the_secret_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    given = Credentials("KEY-ID", Secret(KEY_TEXT))
    with caplog.at_level(logging.DEBUG):
        logging.getLogger().warning("%s %r %s", given, given.secret_key, {"k": given.secret_key})
    shown = [repr(given), str(given), f"{given.secret_key:>60}", f"{given.secret_key!s}", caplog.text, str([given])]
    assert not [text for text in shown if KEY_TEXT[:8] in text]
    for leak in (pickle.dumps, copy.deepcopy, dataclasses.asdict):
        with pytest.raises(TypeError):
            leak(given)
    with pytest.raises(TypeError):
        json.dumps(given.secret_key)
    assert not hasattr(given.secret_key, "__dict__")


def test_secrets_compare_by_value() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
