"""The files beside slurm.conf, as pure functions: gres.conf, cgroup.conf, topology.yaml and job_submit.lua.

They go to /etc/slurm by ConfigMap, and slurmctld hands the first three to the workers. A changed file does not restart
slurmctld by itself, so each ConfigMap is named by its content.
"""

import json
from collections.abc import Iterable

from components.slurm.conf_plan import ConfPlan, SlurmPool
from components.slurm.conf_settings import TopologySettings

TOPOLOGY = "fabric"
"""Name of the topology in topology.yaml, and so in a node's `Topology=fabric:<leaf>`."""

_ROOT = "_root"
# What slurmd asks for the GPUs of a node. NVIDIA's needs no library in the image, which `nvml` would.
_DETECT = {"nvidia": "nvidia", "amd": "rsmi"}
_MOST_NODES_OF_A_POOL = 10_000


def gres_conf(pools: Iterable[SlurmPool]) -> str:
    """gres.conf: how a worker finds its GPUs.

    With GPUs of two vendors each pool has a line over the names that its nodes may have, `<key>-<number>`.
    """
    vendors = {pool.key: _DETECT[pool.vendor] for pool in pools if pool.vendor in _DETECT}
    kinds = dict.fromkeys(vendors.values())
    if len(kinds) < 2:
        return "".join(f"AutoDetect={kind}\n" for kind in kinds)
    return "".join(
        f"NodeName={key}-[0-{_MOST_NODES_OF_A_POOL - 1}] AutoDetect={kind}\n" for key, kind in vendors.items()
    )


def cgroup_conf() -> str:
    """cgroup.conf: jobs are held to their cores, memory and GPUs. With privileged workers nothing else does that.

    A pod has no systemd to ask for a cgroup.
    """
    return (
        "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\n"
    )


def topology_yaml(settings: TopologySettings, found: Iterable[str] = ()) -> str | None:
    """topology.yaml: the leaves known beforehand, those that were found on nodes, and the one for all others.

    Leaves have no nodes here: each node says its leaf when it registers, and is turned away when the file lacks it.
    None without a topology.
    """
    leaves = list(dict.fromkeys([settings.default_leaf, *settings.leaves, *sorted(found)]))
    head = f"- topology: {TOPOLOGY}\n  cluster_default: true\n"
    match settings.kind:
        case "none":
            return None
        case "tree":
            lines = [f"      - switch: {_ROOT}\n        children: {json.dumps(','.join(leaves))}\n"]
            lines += [f"      - switch: {json.dumps(leaf)}\n" for leaf in leaves]
            return f"{head}  tree:\n    switches:\n{''.join(lines)}"
        case "block":
            lines = [f"      - block: {json.dumps(leaf)}\n" for leaf in leaves]
            sizes = f"    block_sizes:\n      - {settings.block_size}\n"
            return f"{head}  block:\n{sizes}    blocks:\n{''.join(lines)}"


def topology_spec(leaf: str) -> str:
    """A node's place: value of the annotation `topology.slinky.slurm.net/spec` and of slurmd's `Topology=`."""
    return f"{TOPOLOGY}:{leaf}"


def job_submit_lua(plan: ConfPlan) -> str:
    """job_submit.lua: tells people at once, in words, what their job lacks.

    Refused are jobs in a partition of GPU pools only that ask for no GPU (whole nodes have theirs), jobs without a time
    limit where the settings say so, and with accounting jobs of users without an account.
    """
    cpu_pools = {pool.key for pool in plan.pools if not pool.gpus}
    mixed = {
        name for name, each in plan.wide_partitions.items() if cpu_pools & {pool.key for pool in plan.pools_of(each)}
    }
    # Those with CPU pools are listed, not the others: one more GPU pool then changes nothing.
    partitions = " ".join(f"[{json.dumps(name)}] = true," for name in sorted(cpu_pools | mixed))
    return _LUA.format(
        partitions=partitions.rstrip(","),
        time=json.dumps(plan.conf.require_time_limit),
        account=json.dumps(plan.accounting),
    )


_LUA = """\
-- Made by the platform's settings; a change here is lost with the next `pulumi up`.
local CPU_PARTITIONS = {{ {partitions} }}
local NEEDS_TIME_LIMIT = {time}
local NEEDS_ACCOUNT = {account}

local function refuse(sentence)
  slurm.log_user(sentence)
  return slurm.ERROR
end

local function asks_for_gpus(job)
  for _, field in ipairs({{ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }}) do
    if job[field] ~= nil and string.find(job[field], "gpu", 1, true) then
      return true
    end
  end
  return job.shared == 0 -- --exclusive: whole nodes, with all that they have
end

local function default_partition(partitions)
  for name, partition in pairs(partitions) do
    if partition.flag_default == 1 then
      return name
    end
  end
  return ""
end

function slurm_job_submit(job, partitions, uid)
  local wanted = job.partition or default_partition(partitions)
  for name in string.gmatch(wanted, "[^,]+") do
    if not CPU_PARTITIONS[name] and not asks_for_gpus(job) then
      return refuse("Partition " .. name .. " has GPU nodes only; this job asks for no GPU. Add --gpus-per-node=1.")
    end
  end
  if NEEDS_TIME_LIMIT and job.time_limit == slurm.NO_VAL then
    return refuse("This job has no time limit: add --time=hours:minutes:seconds.")
  end
  if NEEDS_ACCOUNT and job.account == nil and job.default_account == nil then
    return refuse("You belong to no account: ask for one, or name it with --account.")
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
"""
