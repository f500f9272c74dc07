"""What the images' entrypoints would do."""

from __future__ import annotations

from localcloud.slurm.images import REST_SOCKET, group, image_of, passwd, slurmd

NODE = {"LOCAL_CPUS": "176", "LOCAL_MEMORY": "983040"}


def conf(words: list[str]) -> dict[str, str]:
    items = words[words.index("--conf") + 1].split()
    return {key: value for key, _, value in (item.partition("=") for item in items)}


def test_slurmd_is_shown_its_node_and_told_its_memory() -> None:
    words = list(slurmd(["-D", "-Z", "--conf", "Features=a"], NODE))
    assert words[:3] == ["env", "HWLOC_SYNTHETIC=pack:2 core:88 pu:1", "slurmd"]
    assert conf(words) == {"Features": "a", "RealMemory": "983040"}


def test_an_odd_number_of_cpus_is_one_socket() -> None:
    assert slurmd([], {**NODE, "LOCAL_CPUS": "3"})[1] == "HWLOC_SYNTHETIC=pack:1 core:3 pu:1"


def test_what_the_pod_may_not_use_is_kept_for_the_system() -> None:
    env = {**NODE, "POD_CPUS": "160", "POD_MEMORY": "900000", "POD_TOPOLOGY": "topo-switch:s1"}
    assert conf(list(slurmd(["--conf", "Features=a"], env))) == {
        "Features": "a",
        "RealMemory": "983040",
        "CoreSpecCount": "16",
        "MemSpecLimit": "83040",
        "Topology": "topo-switch:s1",
    }


def test_what_the_node_set_says_itself_wins() -> None:
    env = {**NODE, "POD_CPUS": "160"}
    words = list(slurmd(["--conf", "realmemory=5 CoreSpecCount=2"], env))
    assert conf(words) == {"realmemory": "5", "CoreSpecCount": "2"}


def test_slurmrestd_listens_for_the_local_cloud_too() -> None:
    words = image_of("slurmrestd").entrypoint(["0.0.0.0:6820"], {})
    assert words == ["slurmrestd", "-a", "rest_auth/jwt", "0.0.0.0:6820", f"unix:{REST_SOCKET}"]
    assert list(image_of("slurmrestd").entrypoint(["-a", "x"], {})).count("-a") == 1


def test_an_image_that_nobody_knows_sleeps() -> None:
    assert image_of("sidecar").entrypoint([], {}) == ["sleep", "infinity"]


def test_without_root_every_name_is_the_same_user() -> None:
    assert "slurm:x:401:401:" in passwd(single_user=False)
    assert {line.split(":")[2] for line in passwd(single_user=True).splitlines()} == {"0"}
    assert {line.split(":")[2] for line in group(single_user=True).splitlines()} == {"0"}
