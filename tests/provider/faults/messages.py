"""What every error owes its reader: what was being done, to what, what the API said, and what to do now."""

from __future__ import annotations

import re

LONGEST = 900
"""Characters of a whole message."""

_TRACE = re.compile(r"Traceback|File \"|line \d+, in |Error\(|<class |\bNone\b|\{'")
_ADVICE = re.compile(
    r"\b(run|check|try|wait|ask|correct|import|use|start|look|see that|write|put|give|goes on|asks for)\b",
    re.IGNORECASE,
)
_DOING = re.compile(r"\b(creat|mak|read|find|updat|chang|delet|wait|drain|exist|allow|has|have)\w*", re.IGNORECASE)


def faults_of(message: str, *, about: tuple[str, ...], said: str | None, secrets: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with a message, nothing for a good one.

    Args:
        message: as the user gets to read it.
        about: the resource's names and ids, of which it has to have one.
        said: words of the API's answer, which it has to hand on.
        secrets: what it must not hold.
    """
    found: list[str] = []
    if _TRACE.search(message) or "\n" in message:
        found.append("holds a part of a trace, or several lines")
    if any(secret in message for secret in secrets):
        found.append("holds a secret")
    if len(message) > LONGEST:
        found.append(f"has {len(message)} characters")
    if not message[:1].isupper() or not message.endswith("."):
        found.append("is no sentence")
    if not any(one and one in message for one in about):
        found.append(f"names none of {about}")
    if not _DOING.search(message):
        found.append("does not say what was being done")
    if said is not None and said not in message:
        found.append(f"does not say {said!r}")
    if not _ADVICE.search(message):
        found.append("does not say what to do")
    return found
