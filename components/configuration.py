"""Reading the stack's settings from Pulumi's configuration, once, at the edge of the program."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pulumi
from pulumi.runtime.config import is_config_secret

from components.platform import KEY, PlatformSettings, findings, findings_of_secrets, findings_of_the_whole
from components.settings import SettingsError, parse


def read(document: object, stack: str) -> PlatformSettings:
    """Settings from a plain document; raises `SettingsError` with everything that is wrong with it."""
    return parse(
        PlatformSettings,
        document,
        KEY,
        [lambda platform: findings(platform, stack)],
        lambda settings: findings_of_the_whole(settings, stack),
    )


def load() -> PlatformSettings:
    """Read the settings of the current stack.

    Raises `pulumi.RunError` with one line for each fault, before anything is declared.
    """
    config, stack = pulumi.Config(), pulumi.get_stack()
    if is_config_secret(config.full_key(KEY)):
        raise pulumi.RunError(secret_refusal(stack, Path(f"Pulumi.{stack}.yaml")))
    try:
        document = config.get_object(KEY)
    except pulumi.ConfigTypeError:
        document = None
    try:
        settings = read(document, stack)
        _check_secrets(settings, config)
    except SettingsError as error:
        lines = "\n".join(f"  {finding}" for finding in error.findings)
        raise pulumi.RunError(
            f"the settings of stack {stack} can't be used, and nothing was changed:\n{lines}"
        ) from None
    return settings


def _check_secrets(settings: PlatformSettings, config: pulumi.Config) -> None:
    """Raise `SettingsError` where a secret of the stack can't be what the settings say that it is."""
    if found := [*findings_of_secrets(settings, config.get)]:
        raise SettingsError(found)


def secret_refusal(stack: str, stack_file: Path) -> str:
    """Why `platform` holds no secret, with the commands that put it right.

    Read as part of an object, an encrypted value arrives in clear without a mark, and would land in state like that.
    """
    hidden = list(_encrypted(_settings_in(stack_file), KEY)) or [f"{KEY}.<path>"]
    removals = " && ".join(f"pulumi config rm --path '{path}' --stack {stack}" for path in hidden)
    return (
        f"{', '.join(hidden)} is encrypted (secure:), but inside {KEY} it would land in state in clear. "
        f"Take it out with `{removals}`, and keep a secret under a key of its own: "
        f"`pulumi config set --secret <key> --stack {stack}`."
    )


def _settings_in(stack_file: Path) -> object:
    """The settings as the stack file has them, None where it can't be read (`--config-file` may name another)."""
    import yaml  # Only a refusal needs it, and it costs every other run 20 ms.

    try:
        document = cast("object", yaml.safe_load(stack_file.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError):
        return None
    config = _entries(_entries(document).get("config"))
    return next((value for key, value in config.items() if key.rpartition(":")[2] == KEY), None)


def _entries(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _encrypted(value: object, path: str) -> Iterator[str]:
    """Paths of all encrypted values, as `pulumi config --path` takes them."""
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        if list(given) == ["secure"]:
            yield path
            return
        for key, entry in given.items():
            yield from _encrypted(entry, f"{path}.{key}")
    elif isinstance(value, list):
        for index, entry in enumerate(cast("list[object]", value)):
            yield from _encrypted(entry, f"{path}[{index}]")
