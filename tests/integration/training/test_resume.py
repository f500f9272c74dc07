"""A job that was disturbed has, step by step, the losses of one that was not."""

from __future__ import annotations

import shutil
import signal
import time

import pytest

from tests.integration.training.conftest import NewJob
from tests.integration.training.nodes import Job, last, losses, repeated, steps_saved
from training import checkpoints, codes, records

pytestmark = pytest.mark.integration

STEPS = ("--steps", "45")
# Epochs of 325 samples end within steps 21 and 41.


@pytest.fixture(scope="module", params=["ddp", "fsdp2"])
def undisturbed(request: pytest.FixtureRequest, new_job: NewJob) -> Job:
    job = new_job(f"undisturbed-{request.param}", *STEPS, "--strategy", request.param)
    job.finish(nodes=2, ranks=1)
    assert sorted(losses(job.run)) == list(range(1, 46))
    assert steps_saved(job.run) == [45, 40, 30]
    return job


def test_crashes_and_sigterm_lose_no_bit(undisturbed: Job, new_job: NewJob) -> None:
    save = "async" if "fsdp2" in undisturbed.options else "sync"
    job = new_job("disturbed", *undisturbed.options, "--save", save)
    # A rank dies in the middle of the second epoch.
    attempt = job.start("--step-seconds", "0.05")
    attempt.until_step(34)
    attempt.signal(signal.SIGKILL, 1)
    assert attempt.end() == 1
    assert steps_saved(job.run)[0] == 30
    # The newest checkpoint is torn: the one before it counts, just before the end of the first epoch.
    torn = checkpoints.published(job.run / "checkpoints")[0]
    file = next(torn.glob("__1_*"))
    file.write_bytes(b"x" * file.stat().st_size)
    attempt = job.start("--step-seconds", "0.05")
    attempt.until_step(37)
    assert last(job.run, "checkpoint-skipped")["why"] == f"{file.name} is not what was saved"
    resumed = last(job.run, "resumed")
    assert (resumed["step"], resumed["bitwise"]) == (20, True)
    # One of the ranks is told to end, twice, as Slurm and torchrun do; both leave after the same step.
    attempt.signal(signal.SIGTERM, 1)
    attempt.signal(signal.SIGTERM, 1)
    assert attempt.end() == 1
    left = attempt.seen("leaving")
    assert len(left) == 2
    assert {(each["code"], each["step"]) for each in left} == {(codes.STOPPED, steps_saved(job.run)[0])}
    job.finish()
    assert last(job.run, "resumed")["step"] == left[0]["step"]
    assert losses(job.run) == losses(undisturbed.run)
    assert repeated(job.run).keys() >= set(range(31, 35))
    assert all(len(different) == 1 for different in repeated(job.run).values())
    # Run again it does nothing.
    before = records.steps(job.run)
    job.finish()
    assert records.steps(job.run) == before
    assert last(job.run, "leaving")["why"] == "there was nothing left to do"


def test_power_lost_in_the_middle_of_an_asynchronous_save(new_job: NewJob, two_ranks: Job) -> None:
    job = new_job("power", *two_ranks.options, "--save", "async", "--keep", "1")
    folder = job.run / "checkpoints"
    # How long after a save was begun, and how long its files take at least.
    for delay, padding in ((0.0, 0.0), (0.03, 0.0), (0.1, 0.0), (0.1, 0.4), (0.45, 0.4)):
        before = newest(job)
        attempt = job.start("--save-seconds", str(padding), "--step-seconds", "0.05")
        attempt.until(lambda now=attempt: now.seen("save-begun"), "a save")
        time.sleep(delay)
        attempt.power_off()
        assert (attempt.seen("resumed") or attempt.seen("fresh"))[0].get("step", 0) == before
        assert newest(job) >= before
        # Nothing has the name of a checkpoint that isn't one.
        assert checkpoints.published(folder) == checkpoints.whole(folder)
    job.finish()
    assert losses(job.run) == losses(two_ranks.run)
    assert steps_saved(job.run) == [45]


def newest(job: Job) -> int:
    """The step that a job would go on from."""
    return max(checkpoints.newest_step(job.run / "checkpoints"), 0)


@pytest.fixture(scope="module")
def two_ranks(new_job: NewJob) -> Job:
    """A run without dropout, which another number of ranks can be compared with."""
    job = new_job("two-ranks", *STEPS, "--strategy", "fsdp2", "--dropout", "0")
    job.finish()
    return job


def test_another_number_of_ranks_goes_on_with_moments_and_schedule(new_job: NewJob, two_ranks: Job) -> None:
    # From two ranks to three, from three sharded ones to one whole one, and from that back to two.
    before, saved_by, step = two_ranks, 2, 30
    for ranks, strategy in ((3, "fsdp2"), (1, "ddp"), (2, "fsdp2")):
        saved = before.run / "checkpoints" / f"step-{step:08d}"
        moments = float.fromhex(checkpoints.manifest_of(saved).optimizer)
        assert moments > 0
        job = new_job(f"{ranks}-ranks", *two_ranks.options, "--strategy", strategy, "--interval", "5")
        shutil.copytree(saved, job.run / "checkpoints" / saved.name)
        job.finish(ranks=ranks)
        resumed = last(job.run, "resumed")
        assert (resumed["step"], resumed["bitwise"]) == (step, False)
        assert f"{saved_by} ranks then and {ranks} now" in resumed["because"]
        assert float.fromhex(resumed["optimizer"]) == pytest.approx(moments)
        assert sorted(losses(job.run)) == list(range(step + 1, 46))
        for each, loss in losses(job.run).items():
            assert float.fromhex(loss) == pytest.approx(float.fromhex(losses(two_ranks.run)[each]), rel=1e-4)
        before, saved_by, step = job, ranks, step + 5
