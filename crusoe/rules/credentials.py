"""Telling credentials from other text, without ever repeating one.

Forms are those that their issuers publish; a key that is called after a secret and holds a long random text counts too.
"""

from __future__ import annotations

import base64
import math
import re

from crusoe.rules.finding import Finding
from crusoe.rules.values import text

_FORMS = {
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "an access key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})\b"),
    "a token of GitLab": re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}\b"),
    "a token of Hugging Face": re.compile(r"\bhf_[A-Za-z0-9]{30,}\b"),
    "a token of Slack": re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}\b"),
    "an address of a Slack webhook": re.compile(
        r"https://hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]+"
    ),
    "an access token of Pulumi": re.compile(r"\bpul-[0-9a-f]{40}\b"),
    "a key of NVIDIA NGC": re.compile(r"\bnvapi-[A-Za-z0-9_-]{40,}\b"),
    "a key of OpenAI": re.compile(r"\bsk-[A-Za-z0-9_-]{32,}\b"),
    "a JSON web token": re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    "a password in an address": re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@$]{1,64}:[^\s/@${}]{3,}@[A-Za-z0-9]"),
}
_HINTS = (
    "-----BEGIN",
    "AKIA",
    "ASIA",
    "gh",
    "glpat-",
    "hf_",
    "xox",
    "hooks.slack",
    "pul-",
    "nvapi-",
    "sk-",
    "eyJ",
    "://",
)
_NAMES = re.compile(
    r"(?i)(^|[^a-z])(password|passwd|passphrase|secret|secret[_-]?key|api[_-]?key|access[_-]?key|auth[_-]?token|token)$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Words, paths, names of other objects and placeholders are no credentials.
_WORDS = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*|.*[\s$<{].*", re.DOTALL)
_BEGIN_IN_BASE64 = "LS0tLS1CRUdJTi"  # "-----BEGIN"
_SHORTEST = 12


def in_clear(path: str, key: object, value: object) -> list[Finding]:
    """Refuse a text that is a credential by its form, or by the name it is under. The message never holds it."""
    given = text(value)
    if given is None:
        return []
    kind = _form(given) or _named(text(key) or "", given)
    if kind is None:
        return []
    fix = "Set it with `pulumi config set --secret` and read it with require_secret, or name a Secret that holds it"
    return [Finding(path, f"this is {kind}, in clear, and it would stand in state so", fix)]


def _form(given: str) -> str | None:
    if given.startswith(_BEGIN_IN_BASE64):
        digits = re.sub(r"[^A-Za-z0-9+/]", "", given[:120])
        head = base64.b64decode(digits[: len(digits) // 4 * 4])
        return "a private key" if b"PRIVATE KEY" in head else None
    if not any(hint in given for hint in _HINTS):
        return None
    return next((kind for kind, form in _FORMS.items() if form.search(given)), None)


def _named(key: str, given: str) -> str | None:
    if len(given) < _SHORTEST or not _NAMES.search(_CAMEL.sub("_", key)):
        return None
    if _WORDS.fullmatch(given) and not re.fullmatch(r"[0-9a-f]{32,}", given):
        return None
    return f"a value called {key[:40]!r}" if _bits(given) >= 2.5 else None


def _bits(given: str) -> float:
    """Return the entropy of a text in bits a character: above 2.5 nobody has made it up."""
    counts = [given.count(each) for each in set(given)]
    return -sum(count / len(given) * math.log2(count / len(given)) for count in counts)
