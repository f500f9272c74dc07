"""The container images that Slurm runs from: pinned, from one registry that can be a mirror.

Slinky's operator is numbered like its charts, the daemons by Slurm's own release: a new chart is never a new Slurm by
accident. A digest pins one image to the byte.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from components.settings import Form, Plain, Settings
from components.slurm import charts
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text

SLURM = "26.05.1"
BASE = "ubuntu26.04"
ALPINE = "3.22.2"
PYTHON = "3.13.9-slim"

_OPERATOR = (
    "slurm-operator",
    "slurm-operator-webhook",
    "slurm-bridge-admission",
    "slurm-bridge-controllers",
    "slurm-bridge-scheduler",
)
_DAEMONS = ("slurmctld", "slurmdbd", "slurmrestd", "slurmd", "login")
# Those that have a flavour with Pyxis and Enroot, for `--container-image`.
_PYXIS = ("slurmd", "login")
# The first reads log files, the second runs the actor; both are stock images.
_SIDES = {"alpine": ALPINE, "python": PYTHON}
NAMES = (*_OPERATOR, *_DAEMONS, *_SIDES)
"""Every image that can be pinned."""

Digest = Annotated[str, Form(r"sha256:[0-9a-f]{64}", "not a digest")]
Tag = Annotated[str, Form(r"\d+\.\d+(\.\d+)?-[a-z0-9.]+(-[a-z0-9.]+)*", "not a tag of Slurm's images")]
Registry = Annotated[
    str, Form(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*", "not a registry, with an optional path and no https://")
]


class ImageSettings(Settings):
    """The images of Slurm's daemons and of their operator."""

    registry: Registry = Field(
        default="ghcr.io/slinkyproject",
        description="Registry with Slinky's images, or a mirror of it.",
        examples=["registry.example.com/slinky"],
    )
    side_registry: Registry = Field(
        default="docker.io/library",
        description="Registry with `alpine`, which the daemons' log readers run from, and `python`, which the actor "
        "runs from.",
        examples=["registry.example.com/library"],
    )
    tag: Tag = Field(
        default=f"{SLURM}-{BASE}",
        description="Slurm's release and the distribution of the daemons' images. Releases only go forward: the "
        "runbook docs/runbooks/upgrade-slurm.md has the order.",
        examples=[f"{SLURM}-{BASE}"],
    )
    containers: Literal["none", "pyxis"] = Field(
        default="none",
        description="`pyxis` runs jobs in containers (`sbatch --container-image`).",
        examples=["pyxis"],
    )
    digests: Mapping[str, Digest] = Field(
        default={},
        description="Digests by image, which pin it to the byte.",
        examples=[{"slurmctld": "sha256:" + "0" * 64}],
    )
    pull_secret: str | None = Field(
        default=None,
        description="Name of an existing Secret with the registry's credentials, in every namespace that needs it.",
        examples=["registry"],
    )


def findings(images: Plain, path: str) -> Iterator[Finding]:
    """Check that each digest is one of an image that is used."""
    for name in table(images.get("digests")):
        if name not in NAMES:
            yield Finding(f"{path}.digests.{name}", "there is no such image", f"Known: {', '.join(NAMES)}")
    tag = text(images.get("tag"))
    if tag and not tag.startswith(("25.11", "26.05")):
        yield Finding(
            f"{path}.tag", f"Slinky {charts.SLINKY} runs Slurm 25.11 and 26.05", f"Write {f'{SLURM}-{BASE}'!r}"
        )


def references(settings: ImageSettings) -> dict[str, str]:
    """Each image's reference: `registry/name:tag`, or `registry/name@digest`."""

    def reference(name: str) -> str:
        flavour = f"{name}-pyxis" if settings.containers == "pyxis" and name in _PYXIS else name
        registry = settings.side_registry if name in _SIDES else settings.registry
        if name in settings.digests:
            return f"{registry}/{flavour}@{settings.digests[name]}"
        tag = _SIDES.get(name) or (charts.SLINKY if name in _OPERATOR else settings.tag)
        return f"{registry}/{flavour}:{tag}"

    return {name: reference(name) for name in NAMES}
