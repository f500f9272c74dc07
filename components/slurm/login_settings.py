"""What a team can say about the login nodes, and the checks of it."""

from collections.abc import Iterator, Mapping

from pydantic import Field

from components.settings import Plain, Settings
from crusoe.rules import network, ssh
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, text

WORLD = ("0.0.0.0/0", "::/0")

ONLY_SLINKY = ("cpus", "memory", "mostProcesses", "noticeMinutes", "template")
"""Settings that Crusoe Managed Slurm has no counterpart for."""


class LoginSettings(Settings):
    """The login nodes: where people are when they type `sbatch`."""

    cidrs: tuple[str, ...] = Field(
        default=(),
        description="Networks that may reach the login nodes over SSH. With none there is no load balancer, and only "
        "`kubectl exec` leads in.",
        examples=[["203.0.113.0/24"]],
    )
    open_to_the_world_reason: str | None = Field(
        default=None,
        description="Why 0.0.0.0/0 may be among the networks; without a reason it is refused.",
        examples=["a conference on 2 May; keys only"],
        min_length=10,
    )
    replicas: int = Field(default=2, description="Login pods.", examples=[2], ge=1, le=20)
    root_keys: tuple[str, ...] = Field(
        default=(),
        description="SSH public keys that may log in as root: administrators only. In managed mode at least one is "
        "needed.",
        examples=[["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample platform-team"]],
    )
    cpus: int = Field(default=2, description="CPU limit of a login pod, `slinky` only.", examples=[4], ge=1, le=64)
    memory: str = Field(
        default="8Gi",
        description="Memory limit of a login pod, `slinky` only: who builds a whole CUDA extension here needs more.",
        examples=["16Gi"],
        pattern=r"^\d+[MG]i$",
    )
    most_processes: int = Field(
        default=2000,
        description="Processes and threads that one user may have on a login node, `slinky` only; jobs don't inherit "
        "it.",
        examples=[500],
        ge=50,
    )
    notice_minutes: int = Field(
        default=10,
        description="Minutes that people are told before their login node ends, `slinky` only; it waits no longer than "
        "somebody is there.",
        examples=[30],
        ge=0,
        le=720,
    )
    template: Mapping[str, object] = Field(
        default={},
        description="Fields to add to the login pods' spec, `slinky` only. Every name in it is checked.",
        examples=[{"nodeSelector": {"example.com/login": "true"}}],
    )


def findings(path: str, login: Plain) -> Iterator[Finding]:
    """Check who may reach the login nodes, and root's keys."""
    for index, each in enumerate(items(login.get("cidrs"))):
        place = f"{path}.cidrs[{index}]"
        if each in WORLD and text(login.get("openToTheWorldReason")) is None:
            yield Finding(
                place,
                "the login nodes would be open to the whole world",
                "Name your networks, or say why in openToTheWorldReason",
            )
        elif each not in WORLD:
            yield from network.cidr(place, each, private=False)
    for index, key in enumerate(items(login.get("rootKeys"))):
        yield from ssh.public_key(f"{path}.rootKeys[{index}]", key)
