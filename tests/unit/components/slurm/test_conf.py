"""slurm.conf and the files beside it: golden files, and what each setting does to them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml

from components.settings import parse
from components.slurm import conf, conf_files
from components.slurm.conf_elsewhere import SETTINGS, elsewhere
from components.slurm.conf_options import TABLE
from components.slurm.conf_plan import ConfPlan, SlurmPool, pod_grace
from components.slurm.conf_settings import ConfSettings, PartitionSettings, TimingSettings, TopologySettings
from crusoe.rules import slurm_conf as rules
from crusoe.rules.slurm_vocabulary import NOT_HERE, OPTIONS
from tests.slurm_plans import DEV, GOLDEN, OWN, PLANS, PROD, text


def options(plan: ConfPlan, given: dict[str, object]) -> dict[str, str]:
    return dict(conf.options(replace(plan, conf=parse(ConfSettings, {"options": given}, "conf"))))


@pytest.mark.parametrize("name", PLANS)
def test_golden_files(name: str) -> None:
    golden = (GOLDEN / f"{name}.conf").read_text(encoding="utf-8")
    assert golden == text(PLANS[name]), "run `python -m tests.slurm_plans` and look at the difference"


@pytest.mark.parametrize("name", PLANS)
def test_our_own_values_pass_our_own_rules(name: str) -> None:
    for option, value in conf.options(PLANS[name]).items():
        kind = OPTIONS[option].kind
        given: object = int(value) if kind == "whole" else value in ("1", "YES") if kind in ("switch", "yes") else value
        assert rules.options("p", {option: given}) == [], option
    assert list(conf.findings(PLANS[name], "platform.slurm")) == []


def test_the_table_has_known_options_once_each_with_a_reason() -> None:
    names = [option.name for option in TABLE]
    assert len(set(names)) == len(names)
    for option in TABLE:
        assert option.name in OPTIONS
        assert option.reason.endswith("."), option.name
        assert not option.grows or OPTIONS[option.name].kind == "list", option.name
    assert set(SETTINGS) <= OPTIONS.keys() - NOT_HERE.keys()
    assert elsewhere("platform.slurm")["KillWait"] == "platform.slurm.timing.killWait"


def test_a_value_replaces_the_platforms_and_a_list_is_added_to_it() -> None:
    changed = options(
        DEV,
        {
            "KillOnBadExit": False,
            "SchedulerParameters": ["bf_interval=15", "BF_window=60"],
            "PrologFlags": "X11",
            "RequeueExit": "80",
            "DisableRootJobs": True,
        },
    )
    assert changed["KillOnBadExit"] == "0"
    assert changed["SchedulerParameters"] == "nohold_on_prolog_fail,bf_continue,BF_window=60,bf_interval=15"
    assert changed["PrologFlags"] == "Contain,X11"
    assert changed["RequeueExit"] == "80"
    assert list(changed)[-1] == "DisableRootJobs"
    assert changed["DisableRootJobs"] == "YES"


def test_one_changed_option_changes_one_line() -> None:
    before = conf.slurm_conf(PROD).splitlines()
    after = conf.slurm_conf(replace(PROD, conf=parse(ConfSettings, {"options": {"MinJobAge": 600}}, "conf")))
    changed = [(old, new) for old, new in zip(before, after.splitlines(), strict=False) if old != new]
    assert ("MinJobAge=300", "MinJobAge=600") in changed


def test_contradictions_of_the_whole_file_are_found() -> None:
    more = {"MessageTimeout": 60, "RequeueExitHold": "75", "PropagateResourceLimits": "ALL", "MaxNodeCount": 5}
    more |= {"ReturnToService": 2}
    plan = replace(DEV, conf=parse(ConfSettings, {"options": more}, "conf"), pools=(SlurmPool("a", most_nodes=6),))
    paths = {finding.path.rpartition(".")[2] for finding in conf.findings(plan, "platform.slurm")}
    assert paths == {
        "UnkillableStepTimeout",
        "RequeueExitHold",
        "PropagateResourceLimits",
        "MaxNodeCount",
        "ReturnToService",
    }


def test_wrong_options_have_findings_of_their_own() -> None:
    wrong = {"ReturnToService": "x", "MaxNodeCount": "many", "Zebra": True}
    assert list(conf.findings(replace(DEV, conf=parse(ConfSettings, {"options": wrong}, "conf")), "p")) == []


def test_without_partitions_there_is_one_over_all_nodes() -> None:
    assert conf.slurm_conf(DEV).splitlines()[-1].startswith("PartitionName=all Nodes=ALL Default=YES ")
    assert "NodeSet=" not in conf.slurm_conf(DEV)
    own = replace(DEV.pools[0], partition=parse(PartitionSettings, {"default": True}, "own"))
    assert "Default=YES" not in conf.slurm_conf(replace(DEV, pools=(own,)))
    assert "Default=YES" in conf.partition_config(DEV, own)


def test_another_gpu_pool_of_a_known_type_changes_nothing() -> None:
    more = replace(DEV, pools=(*DEV.pools, replace(DEV.pools[0], key="more")))
    assert conf.slurm_conf(more) == conf.slurm_conf(DEV)
    assert conf_files.job_submit_lua(more) == conf_files.job_submit_lua(DEV)
    assert conf_files.gres_conf(more.pools) == conf_files.gres_conf(DEV.pools)


def test_every_partition_names_only_node_sets_of_this_text() -> None:
    for plan in PLANS.values():
        written = conf.slurm_conf(plan)
        declared = set(re.findall(r"^NodeSet=(\S+)", written, re.MULTILINE))
        used = {each for nodes in re.findall(r" Nodes=(\S+)", written) for each in nodes.split(",")}
        assert used - {"ALL"} == declared


def test_shares_of_a_gpu_are_known_only_when_they_are_for_every_pool() -> None:
    known, unknown, cpu = (
        SlurmPool("a", gpus=8, cpus=180, memory_mib=800_000),
        SlurmPool("b", gpus=8),
        SlurmPool("c", cpus=4),
    )
    assert conf.partition_config(DEV, known).endswith("DefCpuPerGPU=22 DefMemPerGPU=100000")
    assert "PerGPU" not in conf.partition_config(DEV, unknown)
    assert "DefCpuPerGPU=22" in conf.slurm_conf(replace(DEV, pools=(known, cpu)))
    assert "PerGPU" not in conf.slurm_conf(replace(DEV, pools=(known, unknown)))


def test_what_a_node_registers_with() -> None:
    full = SlurmPool("a", gpus=8, gres="h100", cpus=172, memory_mib=1000, features=("x", "y"), weight=3)
    # The image takes the pod's limits for the node's size; saying it again would take the margin off twice.
    assert conf.node_conf(full) == "Gres=gpu:h100:8 Features=x,y Weight=3"
    assert conf.node_conf(SlurmPool("a")) == ""
    for pool in (pool for plan in PLANS.values() for pool in plan.pools):
        written = conf.node_conf(pool)
        assert all(re.fullmatch(r"\w+=\S+", item) for item in written.split(" ") if written), written


def test_grace_of_the_pods() -> None:
    assert pod_grace(TimingSettings()) == 30 + 90 + 30
    assert pod_grace(parse(TimingSettings, {"podGrace": 400}, "t")) == 400


def test_gres_conf() -> None:
    assert conf_files.gres_conf(PROD.pools) == "AutoDetect=nvidia\n"
    assert conf_files.gres_conf(OWN.pools) == (
        "NodeName=nvl-[0-9999] AutoDetect=nvidia\nNodeName=amd-[0-9999] AutoDetect=rsmi\n"
    )
    assert conf_files.gres_conf([SlurmPool("cpu")]) == ""


def test_topology() -> None:
    assert conf_files.topology_yaml(TopologySettings()) is None
    written = conf_files.topology_yaml(PROD.topology, found=["leaf-2", "9"])
    assert written is not None
    (tree,) = yaml.safe_load(written)
    leaves = ["unknown", "leaf-1", "leaf-2", "9"]
    assert tree["topology"] == "fabric"
    assert tree["tree"]["switches"] == [
        {"switch": "_root", "children": ",".join(leaves)},
        *({"switch": leaf} for leaf in leaves),
    ]
    (block,) = yaml.safe_load(conf_files.topology_yaml(OWN.topology) or "")
    assert block["block"] == {"block_sizes": [18], "blocks": [{"block": "unknown"}]}
    assert conf_files.topology_spec("leaf-1") == "fabric:leaf-1"


def test_job_submit_knows_the_partitions_with_cpu_pools() -> None:
    lua = conf_files.job_submit_lua(OWN)
    assert 'CPU_PARTITIONS = { ["cpu"] = true, ["mixed"] = true }' in lua
    assert "NEEDS_TIME_LIMIT = true" in lua
    assert "NEEDS_ACCOUNT = false" in lua
    lua = conf_files.job_submit_lua(PROD)
    assert "CPU_PARTITIONS = {  }" in lua
    assert "NEEDS_ACCOUNT = true" in lua
    assert "NEEDS_TIME_LIMIT = false" in conf_files.job_submit_lua(DEV)
