"""Crusoe's request signature, version 1.0, as pure functions.

Source: crusoecloud/client-go `auth/v1/auth.go` (v1.0.3, 2026-07-20), checked on the requests that Crusoe's own
Terraform provider 1.1.1 sends.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from crusoe.client.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crusoe.client.credentials import Credentials

VERSION = "1.0"
TIMESTAMP_HEADER = "X-Crusoe-Timestamp"


def canonical_query(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the query as it is both sent and signed: sorted by key, values in the given order, form encoding.

    `[("project_name", "no such; one/ü+")]` gives `project_name=no+such%3B+one%2F%C3%BC%2B`.
    """
    return "&".join(f"{_form(key)}={_form(value)}" for key, value in sorted(pairs, key=lambda pair: pair[0].encode()))


def _form(text: str) -> str:
    # Go's url.QueryEscape leaves the same characters alone as quote_plus does: letters, digits and `-_.~`.
    return quote_plus(text, safe="", encoding="utf-8", errors="strict")


def message(method: str, path: str, query: str, timestamp: str) -> str:
    """Return the text that is signed. `path` is the unescaped path with the endpoint's base path (`/v1/…`)."""
    return f"{path}\n{query}\n{method.upper()}\n{timestamp}\n"


def decode_secret(text: str) -> bytes:
    """Return the key bytes of a secret key.

    Crusoe hands out unpadded base64url and its own client refuses padding; padding is harmless, so it is accepted here.

    Raises:
        ConfigurationError: the text is not base64url; the text itself is not shown.
    """
    bare = text.strip().rstrip("=")
    if not bare or not re.fullmatch(r"[A-Za-z0-9_-]+", bare):
        raise ConfigurationError("The secret key is not base64url text; copy it again as Crusoe showed it.")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        raise ConfigurationError("The secret key is cut short; copy it again as Crusoe showed it.") from None


def signature(secret_key: str, text: str) -> str:
    """Return the unpadded base64url HMAC-SHA256 of `text`."""
    digest = hmac.new(decode_secret(secret_key), text.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def timestamp(now: datetime) -> str:
    """Return `now` as the API wants it: RFC 3339, UTC, whole seconds, `Z`."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def headers(credentials: Credentials, method: str, path: str, query: str, now: datetime) -> dict[str, str]:
    """Return the two headers that sign one request; the body is not covered, and each try needs new ones."""
    stamp = timestamp(now)
    signed = signature(credentials.secret_key.reveal(), message(method, path, query, stamp))
    return {
        TIMESTAMP_HEADER: stamp,
        "Authorization": f"Bearer {VERSION}:{credentials.access_key_id}:{signed}",
    }
