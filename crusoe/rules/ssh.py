"""SSH public keys."""

from __future__ import annotations

import re

from crusoe.rules.finding import Finding
from crusoe.rules.values import text

_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/]{16,}={0,3}( [^\n\r]*)?"
)


def public_key(path: str, value: object) -> list[Finding]:
    """Check an SSH public key; what it holds is never shown, as it may be the private one."""
    given = text(value)
    if given is None or _KEY.fullmatch(given.strip()):
        return []
    if "PRIVATE KEY" in given:
        return [Finding(path, "this is a private key", "Give the public one, the file that ends in .pub")]
    return [
        Finding(path, "this is not an SSH public key", "Give one line such as 'ssh-ed25519 AAAA... name@example.com'")
    ]
