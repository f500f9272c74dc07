"""JSON web tokens for Slurm, and the Secrets of Token objects: pure functions.

Slurm reads HS256 tokens with the claims `exp`, `iat` and `sun` (the Slurm user's name).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from localcloud.slinky.admission import seconds_of
from localcloud.slinky.values import Object, at, name_of, part

_LIFETIME = "15m"
# A token is renewed when this share of its life is left.
_RENEWED_AT = 0.2


def jwt_key(item: Mapping[str, Any]) -> Object:
    """Where a Controller or a Token has its JWT key: `name` and `key` of a Secret; empty where it has none."""
    return part(item, "spec", "jwtKeyRef") or part(item, "spec", "jwtHs256KeyRef")


def jwt(key: bytes, user: str, now: float, lifetime: float) -> str:
    """A token of a Slurm user from `now` (Unix seconds) on, for `lifetime` seconds."""
    claims = {"exp": int(now + lifetime), "iat": int(now), "sun": user}
    head = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(claims)}"
    return f"{head}.{_text(hmac.new(key, head.encode(), hashlib.sha256).digest())}"


def claims_of(token: str) -> Object:
    """A token's claims, unverified; empty if it is none."""
    try:
        body = token.split(".")[1]
        return json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError):
        return {}


def secret_place(token: Mapping[str, Any]) -> tuple[str, str]:
    """The name of a Token's Secret and the key in it."""
    reference = part(token, "spec", "secretRef")
    name = reference.get("name") or f"{name_of(token)}-jwt-{token['spec']['username']}"
    return name, reference.get("key") or "SLURM_JWT"


def lifetime_of(token: Mapping[str, Any]) -> float:
    """How long a Token's JWT is valid, in seconds."""
    return seconds_of(at(token, "spec", "lifetime") or _LIFETIME) or 0.0


def due(token: Mapping[str, Any], secret: Mapping[str, Any] | None, key: bytes, now: float) -> bool:
    """Whether the Secret has to be written: missing, of another user or key, or near its end."""
    if secret is None:
        return True
    if at(token, "spec", "refresh") is False:
        return False
    present = b64decode(part(secret, "data").get(secret_place(token)[1], "")).decode(errors="replace")
    claims = claims_of(present)
    lifetime = lifetime_of(token)
    signed = present == jwt(
        key, claims.get("sun", ""), claims.get("iat", 0), claims.get("exp", 0) - claims.get("iat", 0)
    )
    fits = signed and claims.get("sun") == token["spec"]["username"]
    return not fits or claims["exp"] - now < lifetime * _RENEWED_AT


def token_secret(token: Mapping[str, Any], key_secret: Mapping[str, Any], key: bytes, now: float) -> Object:
    """The Secret of a Token. Its owner is the Secret with the JWT key, not the Token: deleting that leaves it alive."""
    name, field = secret_place(token)
    signed = jwt(key, token["spec"]["username"], now, lifetime_of(token))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": token["metadata"]["namespace"],
            "labels": {"app.kubernetes.io/name": "token", "app.kubernetes.io/instance": name_of(token)},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "name": name_of(key_secret),
                    "uid": key_secret["metadata"]["uid"],
                }
            ],
        },
        "immutable": at(token, "spec", "refresh") is False,
        "data": {field: b64encode(signed.encode()).decode()},
    }


def _encoded(value: Object) -> str:
    return _text(json.dumps(value, separators=(",", ":")).encode())


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
