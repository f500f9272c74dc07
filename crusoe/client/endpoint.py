"""The API's address: the default, the legacy ones that stand for it, and what an address must look like."""

from __future__ import annotations

from urllib.parse import urlsplit

from crusoe.client.errors import ConfigurationError

DEFAULT_ENDPOINT = "https://api.cloud.crusoe.ai/v1"

LEGACY_ENDPOINTS = frozenset({"https://api.crusoecloud.com/v1alpha5", "https://api.crusoecloud.com/v1"})
"""Addresses that Crusoe's own tools rewrite to the default (Terraform provider 1.0.0 and later)."""


def normalise(endpoint: str) -> str:
    """Return the address in the one form that is used, compared and signed: no trailing slash, legacy ones replaced.

    Raises:
        ConfigurationError: not an http(s) address, or plain http to anything but this machine.
    """
    text = endpoint.strip().rstrip("/")
    if text in LEGACY_ENDPOINTS:
        return DEFAULT_ENDPOINT
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host:
        raise ConfigurationError(f"The endpoint {_shown(text)} is not a web address; it looks like {DEFAULT_ENDPOINT}.")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigurationError(
            f"The endpoint of host {host} must be a plain address without user name, query or fragment,"
            f" like {DEFAULT_ENDPOINT}."
        )
    if parts.scheme == "http" and not is_loopback(text):
        raise ConfigurationError(
            f"The endpoint {text} is plain http; use https (plain http is only for an endpoint on this machine)."
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"


def is_loopback(endpoint: str) -> bool:
    """Say whether an address is on this machine: `localhost`, 127.0.0.0/8 or ::1."""
    host = urlsplit(endpoint).hostname or ""
    if host == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(text: str) -> str:
    # A secret pasted into the wrong variable must not end up in a log.
    return repr(text) if len(text) <= 80 and "://" in text and "@" not in text else "given"
