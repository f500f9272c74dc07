"""`Pulumi.<stack>.yaml`: which there are, what one says, and a new one, which never takes another's place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from components.configuration import read as settings_of
from components.network import NetworkSettings
from components.platform import KEY, PlatformSettings
from crusoe.rules.values import table, text

BACKEND = "state:backend"
"""The configuration key that names where the state is kept; `make` goes there unless the shell says otherwise."""

PASSPHRASE = "passphrase"  # noqa: S105 - the kind of a secrets provider
_SCHEMA = "# yaml-language-server: $schema=docs/settings.schema.json\n"


class UnreadableError(Exception):
    """A stack's file can't be used; `str()` is one sentence."""


class ExistsError(Exception):
    """There is a file of that name already."""


@dataclass(frozen=True)
class StackFile:
    """One stack's file.

    Attributes:
        stack: its name.
        settings: the platform's settings, defaults included.
        config: the other configuration keys, without the project's name before them; what is encrypted is `[secret]`.
        secrets_provider: what guards the stack's secrets; empty where the file doesn't say.
    """

    stack: str
    settings: PlatformSettings
    config: Mapping[str, object]
    secrets_provider: str


def path_of(folder: Path, stack: str) -> Path:
    """Return where a stack's file is or would be."""
    return folder / f"Pulumi.{stack}.yaml"


def read(folder: Path, stack: str) -> StackFile:
    """Read and check a stack's file.

    Raises:
        UnreadableError: there is none, or it is not YAML.
        SettingsError: its settings can't be used.
    """
    path = path_of(folder, stack)
    document = _document(path)
    config = {key.removeprefix(_project(folder)): value for key, value in table(document.get("config")).items()}
    return StackFile(
        stack,
        settings_of(config.get(KEY), stack),
        {key: _shown(value) for key, value in config.items() if key != KEY},
        text(document.get("secretsprovider")) or (PASSPHRASE if document.get("encryptionsalt") else ""),
    )


def ranges(folder: Path) -> dict[str, str]:
    """Return the range of each stack's network, by stack; a file that can't be read takes none."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("Pulumi.*.yaml")):
        try:
            config = table(_document(path).get("config"))
        except UnreadableError:
            continue
        platform = table(next((value for key, value in config.items() if key.rpartition(":")[2] == KEY), None))
        default = str(NetworkSettings.model_fields["cidr"].default)
        found[path.name.removeprefix("Pulumi.").removesuffix(".yaml")] = (
            text(table(platform.get("network")).get("cidr")) or default
        )
    return found


def write(folder: Path, stack: str, platform: Mapping[str, object], *, backend: str, secrets_provider: str) -> Path:
    """Write a new stack's file, whole or not at all.

    Raises:
        ExistsError: there is one, which stays as it is.
    """
    path = path_of(folder, stack)
    config: dict[str, object] = {"pulumi:disable-default-providers": ["crusoe", "kubernetes"]}
    if backend:
        config[BACKEND] = backend
    config[KEY] = dict(platform)
    document = {"secretsprovider": secrets_provider, "config": config}
    body = _SCHEMA + yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
    handle, draft = tempfile.mkstemp(dir=folder, prefix=".new-stack-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(body)
        Path(draft).chmod(0o644)
        # A link, unlike a rename, never replaces what is there.
        path.hardlink_to(draft)
    except FileExistsError:
        raise ExistsError(str(path)) from None
    finally:
        Path(draft).unlink()
    return path


def _project(folder: Path) -> str:
    try:
        return f"{_document(folder / 'Pulumi.yaml')['name']}:"
    except KeyError:
        return ":"


def _document(path: Path) -> Mapping[str, object]:
    try:
        return table(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UnreadableError(f"There is no {path.name}: `make new-stack` writes one.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreadableError(f"{path.name} can't be read: {' '.join(str(error).split())}.") from None


def _shown(value: object) -> object:
    given = table(value)
    return "[secret]" if "secure" in given else value
