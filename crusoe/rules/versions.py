"""CMK versions: `1.33.4-cmk.20` belongs to generation v1, a bare `1.35.5` to v2.

Source: Crusoe's Terraform provider 1.1.1 (the v1 form) and its later line (bare versions of CMK v2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Generation = Literal["v1", "v2"]

_FORM = re.compile(r"(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})(?:-cmk\.(0|[1-9]\d{0,5}))?")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A parsed version; ordered by Kubernetes version, then by Crusoe's build, `build` is -1 on v2."""

    major: int
    minor: int
    patch: int
    build: int = -1

    @property
    def generation(self) -> Generation:
        """v1 has Crusoe's build number in its version, v2 has not."""
        return "v2" if self.build < 0 else "v1"

    @property
    def minor_name(self) -> str:
        """Such as `1.33`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        """The version as the API writes it."""
        build = "" if self.build < 0 else f"-cmk.{self.build}"
        return f"{self.major}.{self.minor}.{self.patch}{build}"


def parse(value: object) -> Version | None:
    """Return the version that `value` is, None when it is none; no leading `v`, no blanks, no other suffix."""
    match = _FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    major, minor, patch, build = match.groups()
    return Version(int(major), int(minor), int(patch), int(build) if build is not None else -1)


def generation_of(value: object) -> Generation | None:
    """Return the CMK generation of a cluster of this version, None when it is no version."""
    version = parse(value)
    return version.generation if version else None


def newest_like(value: object, offered: Iterable[str]) -> str | None:
    """Return the newest offered version of the same minor, of the same generation if there is one; None without any."""
    wanted = parse(value)
    if wanted is None:
        return None
    same = [each for name in offered if (each := parse(name)) is not None and each.minor_name == wanted.minor_name]
    found = max(same, key=lambda each: (each.generation == wanted.generation, each), default=None)
    return str(found) if found else None
