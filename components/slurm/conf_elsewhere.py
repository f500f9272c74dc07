"""Which options of slurm.conf have a setting of their own, and which one."""

from collections.abc import Mapping

SETTINGS: Mapping[str, str] = {
    "KillWait": "timing.killWait",
    "UnkillableStepTimeout": "timing.unkillableStepTimeout",
    "SlurmdTimeout": "timing.slurmdTimeout",
    "AuthInfo": "timing.credExpire",
    "PrivateData": "conf.privateData",
    "PreemptType": "conf.preemption",
    "PreemptMode": "conf.preemption",
    "TopologyPlugin": "topology.kind",
    "DefCpuPerGPU": "defCpuPerGpu of a partition",
    "DefMemPerGPU": "defMemPerGpu of a partition",
}
"""Option to setting, below `platform.slurm`."""


def elsewhere(path: str) -> Mapping[str, str]:
    """Option to the whole path of its setting; `path` is that of Slurm's settings."""
    return {name: setting if setting.startswith("def") else f"{path}.{setting}" for name, setting in SETTINGS.items()}
