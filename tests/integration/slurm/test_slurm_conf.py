"""The generated slurm.conf, with the lines of Slinky's operator around it, in a real slurmctld 26.05."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from components.settings import parse
from components.slurm import conf, conf_files
from components.slurm.conf_plan import ConfPlan, SlurmPool
from components.slurm.conf_settings import ConfSettings, PartitionSettings, TopologySettings
from crusoe.rules.slurm_conf import minutes
from crusoe.rules.slurm_vocabulary import OPTIONS
from localcloud.slinky.conf import Surroundings
from localcloud.slinky.conf import slurm_conf as operators
from tests.slurm import SlurmctldError, real_slurmctld, run_slurmctld
from tests.slurm_plans import DEV, PLANS

pytestmark = pytest.mark.integration

# Without slurmdbd, which is not started here, slurmctld knows no TRES of GPUs and does not start.
_NEEDS_SLURMDBD = ("AccountingStorageTRES",)


def whole_file(plan: ConfPlan, text: str | None = None, keys: tuple[str, ...] | None = None) -> str:
    """slurm.conf as the operator writes it around `text`, while the NodeSets of `keys` are there."""
    present = [pool for pool in plan.pools if keys is None or pool.key in keys]
    controller = {
        "metadata": {"name": "slurm", "namespace": "slurm"},
        "spec": {
            "clusterName": "test",
            "extraConf": conf.slurm_conf(plan) if text is None else text,
            "metrics": {"enabled": plan.metrics_user is not None},
        },
    }
    node_sets: list[dict[str, Any]] = [
        {
            "metadata": {"name": pool.key},
            "spec": {
                "partition": {"enabled": True, "config": conf.partition_config(plan, pool)},
                "template": {"spec": {"hostname": f"{pool.key}-"}},
            },
        }
        for pool in present
    ]
    written = operators(controller, Surroundings(node_sets=node_sets))
    return "\n".join(line for line in written.splitlines() if not line.startswith(_NEEDS_SLURMDBD)) + "\n"


def files(plan: ConfPlan) -> Mapping[str, str]:
    """The files beside it."""
    topology = conf_files.topology_yaml(plan.topology)
    return {
        "gres.conf": conf_files.gres_conf(plan.pools),
        "cgroup.conf": conf_files.cgroup_conf(),
        "job_submit.lua": conf_files.job_submit_lua(plan),
        **({"topology.yaml": topology} if topology else {}),
    }


def same(option: str, ours: str, slurms: str) -> bool:
    """Whether `scontrol show config` says what we wrote, in its own words."""
    match OPTIONS[option].kind:
        case "whole":
            return re.match(r"\d+", slurms) is not None and int(ours) == int(slurms.split()[0])
        case "list":
            return {item.lower() for item in ours.split(",")} <= {item.lower() for item in slurms.split(",")}
        case "time":
            return minutes(ours) == minutes(slurms)
        case "switch" | "yes":
            return (ours in ("1", "YES")) == (slurms.lower() in ("1", "yes"))
        case _:
            return ours.lower() == slurms.lower()


@pytest.mark.parametrize("name", PLANS)
def test_slurm_has_every_value_that_we_set(name: str) -> None:
    plan = PLANS[name]
    config = {name.lower(): value for name, value in real_slurmctld(whole_file(plan), files(plan)).items()}
    for option, value in conf.options(plan).items():
        if option not in _NEEDS_SLURMDBD:
            slurms = config[option.lower()]
            assert same(option, value, slurms), f"{option}: ours {value!r}, Slurm's {slurms!r}"


def test_every_state_between_two_settings_loads_and_other_partitions_keep_their_nodes() -> None:
    """C22: one pool goes to no nodes while the other goes away; the operator's file changes before or after ours."""
    pools = (SlurmPool("a"), SlurmPool("b"), SlurmPool("c"))
    wide = {
        "ab": parse(PartitionSettings, {"pools": ["a", "b"]}, "ab"),
        "c2": parse(PartitionSettings, {"pools": ["c"], "default": True}, "c2"),
    }
    before = replace(DEV, pools=pools, partitions=wide)
    after = replace(
        DEV, pools=(pools[0], pools[2]), partitions={**wide, "ab": parse(PartitionSettings, {"pools": ["a"]}, "ab")}
    )
    create = "scontrol create nodename=c-0 state=cloud feature=c"
    for plan, keys in ((before, ("a", "c")), (before, ("c",)), (after, ("a", "b", "c")), (after, ("a", "c"))):
        written = whole_file(before, conf.slurm_conf(plan), keys)
        config, said, log = run_slurmctld(written, files(plan), (create, "sinfo --noheader --format='%R %D %N'"))
        assert config is not None, log
        assert "c2 1 c-0" in said
        assert "ab 0" in said


def test_slurm_refuses_the_form_that_we_avoid() -> None:
    with pytest.raises(SlurmctldError, match="Invalid node names in partition wide"):
        real_slurmctld(whole_file(DEV, "PartitionName=wide Nodes=train,gone\n"), files(DEV))


@pytest.mark.parametrize("kind", ["tree", "block"])
def test_a_node_joins_its_leaf_and_is_turned_away_from_one_that_is_not_there(kind: str) -> None:
    plan = replace(DEV, topology=parse(TopologySettings, {"kind": kind, "leaves": ["leaf-1"]}, "topology"))
    commands = tuple(
        f"scontrol create nodename=train-{number} state=cloud feature=train topology={conf_files.topology_spec(leaf)}"
        for number, leaf in enumerate(("leaf-1", plan.topology.default_leaf, "nowhere"))
    )
    config, said, log = run_slurmctld(
        whole_file(plan), {**files(plan), "gres.conf": ""}, (*commands, "scontrol show topology")
    )
    assert config is not None, log
    assert re.search(r"(Switch|Block)Name=leaf-1 .*Nodes=train-0\b", said)
    assert re.search(r"(Switch|Block)Name=unknown .*Nodes=train-1\b", said)
    assert "Requested topology configuration is not available (train-2)" in said


def test_job_submit_tells_what_a_job_lacks() -> None:
    plan = replace(DEV, pools=(*DEV.pools, SlurmPool("cpu")), conf=parse(ConfSettings, {}, "conf"), accounting=True)
    jobs = {
        "--partition=train --time=5": "this job asks for no GPU. Add --gpus-per-node=1.",
        "--partition=train,cpu --time=5": "Partition train has GPU nodes only",
        "--partition=cpu": "This job has no time limit",
        "--partition=train --gpus=1": "This job has no time limit",
        "--partition=cpu --time=5": "You belong to no account",
        # Slurm itself has the last word on jobs that pass: no node is here to run them.
        "--partition=cpu --time=5 --account=a": "",
        "--partition=train --time=5 --account=a --gpus-per-node=8": "",
        "--partition=train --time=5 --account=a --gres=gpu:h100:1": "",
        "--partition=train --time=5 --account=a --exclusive": "",
        "--time=5 --account=a": "",
    }
    text = "\n".join(line for line in conf.slurm_conf(plan).splitlines() if "Accounting" not in line) + "\n"
    commands = tuple(f"sbatch {arguments} --wrap=true" for arguments in jobs)
    config, said, log = run_slurmctld(whole_file(plan, text), files(plan), commands)
    assert config is not None, log
    answers = said.split("rc=")
    for (arguments, words), answer in zip(jobs.items(), answers, strict=False):
        if words:
            assert words in answer, f"{arguments}: {answer}"
        else:
            assert not re.search("GPU|limit|account", answer), f"{arguments}: {answer}"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("KilWait=90", "unrecognized key: KilWait"),
        ("SlurmctldParameters=enable_stepmgr\nPrologFlags=Alloc", "STEP_MGR not supported without PrologFlags=contain"),
        ("EnforcePartLimits=SOME", "Bad EnforcePartLimits"),
        ("PropagateResourceLimitsExcept=MEMLOK", "Bad rlimit name"),
        ("PartitionName=x Nodes=ALL MaxTime=7d", 'Bad value "7d" for MaxTime'),
        ("PartitionName=train Nodes=ALL", "duplicate entry for partition train"),
        ("AccountingStorageTRES=gres/gpu", "slurmdbd is required"),
        ("PreemptType=preempt/partition_prio\nPreemptMode=OFF", "PreemptType and PreemptMode values incompatible"),
    ],
)
def test_why_there_are_rules_slurm_dies(line: str, says: str) -> None:
    with pytest.raises(SlurmctldError, match=re.escape(says)):
        real_slurmctld(f"{whole_file(DEV)}{line}\n", files(DEV))


def test_why_there_are_rules_slurm_is_silent() -> None:
    mistakes = """\
PrivateData=jobs,usrs
SchedulerParameters=nohold_on_prolog_fial
LaunchParameters=use_interactve_step
PreemptParameters=youngest
PropagateResourceLimits=ALL
PartitionName=one Nodes=ALL MaxTime=60 DefaultTime=90 Default=YES
PartitionName=two Nodes=ALL Default=YES
"""
    config, said, log = run_slurmctld(
        whole_file(DEV) + mistakes, files(DEV), ("sinfo --noheader --format=%P", "scontrol show partition one")
    )
    assert config is not None, log
    assert config["PrivateData"] == "jobs"
    assert config["SchedulerParameters"] == "nohold_on_prolog_fial"
    assert config["LaunchParameters"] == "use_interactve_step"
    assert config["PreemptParameters"] == "youngest"
    assert config["PropagateResourceLimits"] == "(null)"
    assert "DefaultTime=NONE" in said
    assert re.findall(r"^(\w+)\*", said, re.MULTILINE) == ["two"]
