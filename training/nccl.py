"""Settings of NCCL for a VM type, each with its reason; what the user has set wins, and nothing is guessed.

What is known of VM types comes from this project's catalogue by way of `vm_types.json` (`python -m training.vm_types`
writes it), so that a node needs only this folder. The values are those of Crusoe's published job scripts (solutions
library, cmk-nccltests and grafana-cmk, 2026-08-21) except where a reason says otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("vm_types.json")
VM_TYPE = "TRAINING_VM_TYPE"
"""Names the VM type where the GPUs' model leaves a choice, such as `a100-80gb-sxm-ib.8x`."""

_WORD = re.compile(r"[a-z0-9]+")
_GPUS = Path("/proc/driver/nvidia/gpus")
_TOPOLOGY = "/etc/crusoe/nccl_topo/{family}-cloud-hypervisor.xml"


@dataclass(frozen=True)
class Setting:
    """The value of a variable, and why it is that."""

    value: str
    why: str


@dataclass(frozen=True)
class Advice:
    """Settings by variable, and a sentence that says for what VM type they are, and what is left to the user."""

    sentence: str
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])


# On every VM type.
_ALWAYS = {
    "NCCL_SOCKET_IFNAME": Setting("=eth0", "the pod's network; `=` because a bare name is a prefix"),
    "GLOO_SOCKET_IFNAME": Setting("eth0", "the same for gloo, which checkpoints use"),
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": Setting("300", "a watchdog that hangs itself ends the rank after five minutes"),
    "TORCH_NCCL_DUMP_ON_TIMEOUT": Setting("1", "after a timeout every rank writes what it was waiting for"),
    "TORCH_FR_BUFFER_SIZE": Setting("2000", "collectives that are kept for that; 0, the default, keeps none"),
}

# On types whose adapters carry InfiniBand or RoCE.
_FABRIC = {
    "NCCL_IB_TIMEOUT": Setting(
        "22", "two minutes until a silent peer is an error: longer than a switch's reroute, below the group's timeout"
    ),
    "NCCL_IB_MERGE_VFS": Setting("0", "the adapters are virtual functions of different cards, not ports of one"),
    "NCCL_IB_QPS_PER_CONNECTION": Setting("2", "two paths through the fabric's switches for each connection"),
    "NCCL_IB_SPLIT_DATA_ON_QPS": Setting("0", "... used in turn, not with half of each message"),
    "NCCL_IB_PCI_RELAXED_ORDERING": Setting("1", "without it virtual functions are far below the adapters' speed"),
    "NCCL_IB_SL": Setting("1", "the fabric's service level for GPU traffic"),
    "NCCL_IBEXT_DISABLE": Setting("1", "NCCL's own InfiniBand transport, which these settings are for"),
    "NCCL_NVLS_ENABLE": Setting("1", "reductions in the NVLink switch, where the host has one"),
}


def advice(
    environ: Mapping[str, str],
    gpus: Callable[[], list[str]] | None = None,
    exists: Callable[[str], bool] = lambda path: Path(path).exists(),
) -> Advice:
    """Settings for this node: for the type that TRAINING_VM_TYPE names, else the one that its GPUs are of.

    `gpus` gives the model of each GPU.
    """
    named = environ.get(VM_TYPE, "")
    family, trouble = _named(named) if named else _seen((gpus or models)())
    if family is None:
        return Advice(f"NCCL is left as it is: {trouble}. {VM_TYPE} names the VM type.")
    facts = table()[family]
    settings = dict(_ALWAYS)
    left: list[str] = []
    if facts["fabric"]:
        settings |= _FABRIC
        if facts["hcas"]:
            listed = ",".join(f"{hca}:1" for hca in facts["hcas"])
            settings["NCCL_IB_HCA"] = Setting(
                f"={listed}", "the adapters that carry the fabric; `=` because mlx5_1 would match mlx5_10 too"
            )
        else:
            left.append("NCCL_IB_HCA (no source says which adapters carry the fabric)")
    path = _TOPOLOGY.format(family=family)
    if exists(path):
        settings["NCCL_TOPO_FILE"] = Setting(path, "the host's real PCI tree, which the hypervisor hides")
    own = sorted(name for name in settings if environ.get(name))
    return Advice(
        f"NCCL is set for {family}"
        + (f"; yours stay: {', '.join(own)}" if own else "")
        + (f"; left unset: {', '.join(left)}" if left else "")
        + ".",
        {name: setting for name, setting in settings.items() if name not in own},
    )


def models() -> list[str]:
    """The model of each GPU of this node, as NVIDIA's driver tells it; none where there is no such driver."""
    found = [path.read_text(errors="replace") for path in sorted(_GPUS.glob("*/information"))]
    return [line.partition(":")[2].strip() for text in found for line in text.splitlines() if line.startswith("Model:")]


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """What is known of each family of VM types with GPUs."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def _named(name: str) -> tuple[str | None, str]:
    family = name.partition(".")[0]
    return (family, "") if family in table() else (None, f"{name} is no VM type with GPUs that is known")


def _seen(gpus: Iterable[str]) -> tuple[str | None, str]:
    found = set(gpus)
    if not found:
        return None, "this node shows no NVIDIA GPUs"
    fitting = [
        family
        for family, facts in table().items()
        if facts["vendor"] == "nvidia" and all(facts["gres"] in _WORD.findall(model.lower()) for model in found)
    ]
    if len(fitting) == 1:
        return fitting[0], ""
    model = ", ".join(sorted(found))
    return None, f"{model} is in {'several' if fitting else 'no known'} VM types"
