"""What the local cloud changes in Slurm's configuration: these lines and no others."""

from __future__ import annotations

from localcloud.slurm.overrides import FILE, OVERRIDES, cgroup_conf, overridden, slurm_conf_lines


def options(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def test_only_what_namespaces_cannot_do_is_changed() -> None:
    assert options(slurm_conf_lines("ClusterName=x\n")) == {
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "SlurmdParameters": "config_overrides",
    }


def test_every_change_says_why() -> None:
    text = slurm_conf_lines("")
    for _, reason in OVERRIDES.values():
        assert f"# {reason}\n" in text


def test_items_of_slurmd_parameters_stay() -> None:
    given = "SlurmdParameters=old\nslurmdparameters = contain_spank,config_overrides # as planned\n"
    assert options(slurm_conf_lines(given))["SlurmdParameters"] == "contain_spank,config_overrides"
    assert options(slurm_conf_lines("SlurmdParameters=a,b"))["SlurmdParameters"] == "a,b,config_overrides"


def test_the_generated_text_is_loaded_first_and_whole() -> None:
    files = {"slurm.conf": b"ClusterName=x\nPartitionName=p Nodes=ALL", "gres.conf": b"AutoDetect=nvidia\n"}
    changed = overridden(files)
    assert changed["slurm.conf"] == b"ClusterName=x\nPartitionName=p Nodes=ALL\nInclude local-cloud.conf\n"
    assert changed["gres.conf"] == files["gres.conf"]
    assert set(changed) == {*files, FILE, "cgroup.conf"}


def test_a_folder_without_slurm_conf_is_left_alone() -> None:
    assert overridden({"slurm.key": b"k"}) == {"slurm.key": b"k"}


def test_other_lines_of_cgroup_conf_stay() -> None:
    text = "CgroupPlugin=cgroup/v2\nConstrainCores=yes\n"
    assert cgroup_conf(text) == "ConstrainCores=yes\nCgroupPlugin=disabled\n"
