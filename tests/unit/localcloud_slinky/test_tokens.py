"""Tokens as Slurm reads them, and when they are renewed."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, urlsafe_b64decode
from typing import Any

import pytest

from localcloud.slinky.tokens import claims_of, due, jwt, lifetime_of, secret_place, token_secret
from localcloud.slinky.values import Object
from tests.unit.localcloud_slinky.support import JWT_KEY, resource

KEY = b"key"
NOW = 1_800_000_000.0
KEY_SECRET: Object = {"metadata": {"name": "slurm-auth-jwt", "uid": "u1"}}


def token(**spec: Any) -> Object:
    return resource("Token", "metrics", {"username": "scraper", "jwtKeyRef": JWT_KEY, **spec})


def test_a_token_is_signed_and_says_whose_it_is_and_until_when() -> None:
    head, body, signature = jwt(KEY, "scraper", NOW, 900).split(".")
    wanted = hmac.new(KEY, f"{head}.{body}".encode(), hashlib.sha256).digest()
    assert urlsafe_b64decode(signature + "=") == wanted
    assert claims_of(f"{head}.{body}.{signature}") == {"exp": NOW + 900, "iat": NOW, "sun": "scraper"}


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "a.e30"])
def test_what_is_no_token_has_no_claims(text: str) -> None:
    assert claims_of(text) == {}


def test_the_secret_belongs_to_the_key_and_not_to_the_token() -> None:
    secret = token_secret(token(), KEY_SECRET, KEY, NOW)
    assert secret["metadata"]["name"] == "metrics-jwt-scraper"
    assert [(each["kind"], each["name"]) for each in secret["metadata"]["ownerReferences"]] == [
        ("Secret", "slurm-auth-jwt")
    ]
    assert secret["immutable"] is False
    assert token_secret(token(refresh=False), KEY_SECRET, KEY, NOW)["immutable"] is True
    assert claims_of(b64decode(secret["data"]["SLURM_JWT"]).decode())["exp"] == NOW + 900


def test_its_place_and_life_are_settings() -> None:
    assert secret_place(token(secretRef={"name": "mine", "key": "auth-token"})) == ("mine", "auth-token")
    assert lifetime_of(token(lifetime="8760h")) == 8760 * 3600


@pytest.mark.parametrize(
    ("change", "seconds", "wanted"),
    [
        ({}, 0, False),
        ({}, 700, False),
        ({}, 730, True),
        ({"refresh": False}, 10_000, False),
        ({"username": "other"}, 0, True),
    ],
)
def test_when_it_is_due(change: dict[str, Any], seconds: float, wanted: bool) -> None:
    secret = token_secret(token(), KEY_SECRET, KEY, NOW)
    changed = token(**change)
    secret["metadata"]["name"] = secret_place(changed)[0]
    assert due(changed, secret, KEY, NOW + seconds) is wanted


def test_it_is_due_when_missing_and_when_the_key_is_another() -> None:
    secret = token_secret(token(), KEY_SECRET, KEY, NOW)
    assert due(token(), None, KEY, NOW)
    assert due(token(), secret, b"another", NOW)
