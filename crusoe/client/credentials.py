"""Where the access key comes from: the environment, or a profile of `~/.crusoe/config`.

Names and file format are those of Crusoe's own tools (Terraform provider 1.1.1). The two sources are never mixed: with
both keys in the environment the file is not read unless CRUSOE_PROFILE asks for it, and half a key in the environment
is an error, because the other half from a file would belong to something else.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from crusoe.client.endpoint import DEFAULT_ENDPOINT, normalise
from crusoe.client.errors import ConfigurationError
from crusoe.client.secret import Secret
from crusoe.client.signing import decode_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCESS_KEY_ID = "CRUSOE_ACCESS_KEY_ID"
SECRET_KEY = "CRUSOE_SECRET_KEY"  # noqa: S105 - the variable's name, not a secret
PROFILE = "CRUSOE_PROFILE"
PROJECT = "CRUSOE_DEFAULT_PROJECT"
ENDPOINT = "CRUSOE_API_ENDPOINT"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and what its source says about where it belongs.

    `endpoint` and `project` are None when neither the environment nor the profile says. `source` is fit for messages,
    `warnings` are for the user to see.
    """

    access_key_id: str
    secret_key: Secret
    source: str = "given"
    endpoint: str | None = None
    project: str | None = None
    warnings: tuple[str, ...] = ()


def load(environ: Mapping[str, str], home: Path | None = None) -> Credentials:
    """Find the credentials; `home` is the folder that holds `.crusoe/config` (default: `environ["HOME"]`).

    Raises:
        ConfigurationError: none found, half of one found, or a file that can't be used; one sentence each.
    """
    key_id, secret = _value(environ, ACCESS_KEY_ID), _value(environ, SECRET_KEY)
    if bool(key_id) != bool(secret):
        present, missing = (ACCESS_KEY_ID, SECRET_KEY) if key_id else (SECRET_KEY, ACCESS_KEY_ID)
        raise ConfigurationError(f"{present} is set but {missing} is not; set both, or neither to use a profile.")

    asked = _value(environ, PROFILE)
    table, file, warnings = ({}, None, ())
    profile = asked or "default"
    if not (key_id and secret) or asked:
        file = _config_file(environ, home)
        profile, table, warnings = _read_profile(file, asked)

    endpoint = _value(environ, ENDPOINT) or _text(table, "api_endpoint", file)
    project = _value(environ, PROJECT) or _text(table, "default_project", file)
    if key_id and secret:
        source = f"{ACCESS_KEY_ID} in the environment"
    else:
        key_id, secret = _text(table, "access_key_id", file), _text(table, "secret_key", file)
        source = f"profile {profile!r} of {file}"
        # A profile that names no endpoint belongs to Crusoe's own: Crusoe's tools would send its key there.
        endpoint = endpoint or DEFAULT_ENDPOINT
        if not key_id or not secret:
            raise ConfigurationError(
                f"No Crusoe access key was found: set {ACCESS_KEY_ID} and {SECRET_KEY}, or put access_key_id and"
                f" secret_key into profile {profile!r} of ~/.crusoe/config."
            )
    _check(key_id, secret, source)
    return Credentials(key_id, Secret(secret), source, normalise(endpoint) if endpoint else None, project, warnings)


def _value(environ: Mapping[str, str], name: str) -> str | None:
    return environ.get(name, "").strip() or None


def _config_file(environ: Mapping[str, str], home: Path | None) -> Path | None:
    folder = home or (Path(environ["HOME"]) if environ.get("HOME") else None)
    return folder / ".crusoe" / "config" if folder else None


def _read_profile(file: Path | None, asked: str | None) -> tuple[str, dict[str, object], tuple[str, ...]]:
    """Return the profile's name, its table and what there is to warn about; no file is an empty table."""
    if file is None or not file.exists():
        if asked:
            raise ConfigurationError(
                f"{PROFILE} asks for profile {asked!r}, but {file or '~/.crusoe/config'} is missing."
            )
        return "default", {}, ()
    import tomllib

    try:
        mode = file.stat().st_mode
        document: dict[str, object] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} can't be read: {error.strerror or 'unknown reason'}.") from None
    except ValueError as error:  # TOML and encoding errors; their text could quote a key, so only the place is told.
        place = str(error).rpartition("(at ")[2].rstrip(")") if "(at " in str(error) else "not UTF-8"
        raise ConfigurationError(f"{file} is not valid TOML ({place}).") from None
    named = asked or document.get("profile") or "default"
    profile = named if isinstance(named, str) else "default"
    table = document.get(profile, {})
    if not isinstance(table, dict) or (asked and profile not in document):
        known = sorted(name for name, value in document.items() if isinstance(value, dict))
        raise ConfigurationError(f"{file} has no profile {profile!r}; it has {', '.join(map(repr, known)) or 'none'}.")
    exposed = mode & (stat.S_IRWXG | stat.S_IRWXO)
    warning = f"{file} holds a secret key and other users of this machine can read it: run `chmod 600 {file}`."
    return profile, cast("dict[str, object]", table), (warning,) if exposed else ()


def _text(table: Mapping[str, object], key: str, file: Path | None) -> str | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigurationError(f"{key} in {file} must be text in quotes.")
    return value.strip() or None


def _check(key_id: str, secret: str, source: str) -> None:
    if not key_id.isascii() or not key_id.isprintable() or any(mark in key_id for mark in ' :"'):
        raise ConfigurationError(f"The access key id from {source} holds characters that no Crusoe key id has.")
    try:
        decode_secret(secret)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} It comes from {source.replace(ACCESS_KEY_ID, SECRET_KEY)}.") from None
