"""The API keys of a state folder, and the token of its admin surface: made once, readable by their owner alone."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_FILE = "keys.json"


@dataclass(frozen=True, repr=False)
class ApiKey:
    """One key pair; it opens one project. The secret is unpadded URL-safe base64, as clients expect."""

    id: str
    secret: str
    project: str
    email: str

    def decoded(self) -> bytes:
        """The bytes that sign."""
        return base64.urlsafe_b64decode(self.secret + "=" * (-len(self.secret) % 4))


@dataclass(frozen=True, repr=False)
class Keys:
    """All keys by id, and the admin token."""

    by_id: dict[str, ApiKey]
    admin_token: str

    def of_project(self, project: str) -> ApiKey:
        """The key of a project by its name; raises KeyError."""
        return {key.project: key for key in self.by_id.values()}[project]


def load_or_make(folder: Path, projects: Iterable[str]) -> Keys:
    """The folder's keys; made on the first call."""
    path = folder / _FILE
    if not path.exists():
        _write(path, projects)
    kept = json.loads(path.read_text(encoding="utf-8"))
    return Keys({row["id"]: ApiKey(**row) for row in kept["keys"]}, kept["admin_token"])


def _write(path: Path, projects: Iterable[str]) -> None:
    keys = [
        {
            "id": f"LOCAL{secrets.token_hex(8).upper()}",
            "secret": secrets.token_urlsafe(32).rstrip("="),
            "project": project,
            "email": f"engineer@{project}.example",
        }
        for project in projects
    ]
    # Complete or absent: a half-written file would lock everyone out.
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"keys": keys, "admin_token": secrets.token_urlsafe(32)}, file, indent=1)
    draft.replace(path)
