"""Addresses of the API."""

from __future__ import annotations

import pytest

from crusoe.client import ConfigurationError
from crusoe.client.endpoint import DEFAULT_ENDPOINT, is_loopback, normalise


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://api.cloud.crusoe.ai/v1", DEFAULT_ENDPOINT),
        (" https://api.cloud.crusoe.ai/v1// ", DEFAULT_ENDPOINT),
        ("https://api.crusoecloud.com/v1alpha5", DEFAULT_ENDPOINT),
        ("https://api.crusoecloud.com/v1/", DEFAULT_ENDPOINT),
        ("https://api.crusoecloud.com/v2", "https://api.crusoecloud.com/v2"),
        ("HTTPS://API.Example.com/V1", "https://api.example.com/V1"),
        ("http://127.0.0.1:8787/v1/", "http://127.0.0.1:8787/v1"),
        ("http://127.255.0.3/v1", "http://127.255.0.3/v1"),
        ("http://localhost:8787/v1", "http://localhost:8787/v1"),
        ("http://[::1]:8787/v1", "http://[::1]:8787/v1"),
    ],
)
def test_one_form_for_each_address(given: str, expected: str) -> None:
    assert normalise(given) == expected
    assert normalise(expected) == expected


@pytest.mark.parametrize(
    "given",
    [
        "http://api.cloud.crusoe.ai/v1",
        "http://127.0.0.1.example.com/v1",
        "http://localhost.example.com/v1",
        "http://127.1/v1",
        "http://10.0.0.1/v1",
        "http://[::2]/v1",
    ],
)
def test_plain_http_only_to_this_machine(given: str) -> None:
    assert not is_loopback(given)
    with pytest.raises(ConfigurationError, match="use https"):
        normalise(given)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "api.cloud.crusoe.ai/v1",
        "ftp://x/v1",
        "https://",
        "https://[::1",
        "https://h:port/v1",
        "file:///etc/passwd",
        "x" * 500,
    ],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a web address"):
        normalise(given)


@pytest.mark.parametrize("extra", ["https://user:canary@h/v1", "https://h/v1?k=canary", "https://h/v1#canary"])
def test_secrets_in_an_address_are_refused_and_not_shown(extra: str) -> None:
    with pytest.raises(ConfigurationError, match="plain address") as caught:
        normalise(extra)
    assert "canary" not in str(caught.value)
