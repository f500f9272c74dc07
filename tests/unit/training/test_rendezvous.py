"""Where the processes of a job meet."""

from __future__ import annotations

import pytest

from training.rendezvous import PORTS, NotInSlurmError, first_host, job_name, meeting, processes

TASK = {
    "SLURM_JOB_ID": "123",
    "SLURM_JOB_NODELIST": "gpu-[2-3]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_NODEID": "1",
    "SLURMD_NODENAME": "gpu-3",
}


def test_a_task_meets_the_others_at_the_first_node() -> None:
    place = meeting(TASK)
    assert (place.id, place.host, place.nodes, place.is_host, place.address) == ("123.0", "gpu-2", 2, False, "gpu-3")
    assert meeting(TASK | {"SLURM_NODEID": "0"}).is_host


def test_every_attempt_has_a_place_of_its_own() -> None:
    places = [meeting(TASK | {"SLURM_RESTART_COUNT": str(count)}) for count in range(16)]
    assert len({place.id for place in places}) == len({place.port for place in places}) == 16


def test_members_of_an_array_are_apart() -> None:
    # The last member has the array's own id.
    members = [
        TASK | {"SLURM_JOB_ID": job, "SLURM_ARRAY_JOB_ID": "123", "SLURM_ARRAY_TASK_ID": task}
        for job, task in (("124", "0"), ("125", "1"), ("123", "2"))
    ]
    places = [meeting(member) for member in members]
    assert [place.id for place in places] == ["123_0.0", "123_1.0", "123_2.0"]
    assert len({place.port for place in places}) == 3
    assert [job_name(member) for member in members] == ["123_0", "123_1", "123_2"]
    assert job_name(TASK) == "123"


@pytest.mark.parametrize("job", [1, 624, 625, 999_999_999])
def test_ports_are_in_their_range(job: int) -> None:
    assert meeting(TASK | {"SLURM_JOB_ID": str(job), "SLURM_RESTART_COUNT": "40"}).port in PORTS


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("gpu1", "gpu1"),
        ("gpu[1-4]", "gpu1"),
        ("gpu-[002,007-009],login", "gpu-002"),
        ("rack[1-2]node[3-4]", "rack1node3"),
        ("a,b[1-2]", "a"),
        ("train-0-[7]x", "train-0-7x"),
    ],
)
def test_the_first_host_of_a_list(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


def test_outside_of_a_job_it_says_what_is_missing() -> None:
    with pytest.raises(NotInSlurmError, match="SLURM_JOB_ID is not set"):
        meeting({})
    with pytest.raises(NotInSlurmError, match="SLURM_NODEID"):
        meeting({name: value for name, value in TASK.items() if name != "SLURM_NODEID"})


def test_one_process_for_each_gpu_of_the_job() -> None:
    assert processes({"SLURM_GPUS_ON_NODE": "8"}) == 8
    assert processes({}) == 1
