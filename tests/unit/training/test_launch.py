"""How torchrun is started on a node."""

from __future__ import annotations

import pytest

from components.slurm.conf_settings import TimingSettings
from training import launch
from training.rendezvous import Meeting

PLACE = Meeting(id="7.2", host="gpu-1", port=20114, nodes=4, is_host=False, address="gpu-3")


def test_one_agent_on_each_node_and_one_rank_for_each_gpu() -> None:
    words = launch.command(PLACE, 8, "c10d", ["--run", "/x"])
    options = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
    assert (options["nnodes"], options["nproc-per-node"], options["local-addr"]) == ("4", "8", "gpu-3")
    assert (options["rdzv-endpoint"], options["rdzv-id"], options["rdzv-backend"]) == ("gpu-1:20114", "7.2", "c10d")
    assert "is_host=0" in options["rdzv-conf"]
    # Slurm restarts a job, perhaps on other nodes; torchrun would on the same ones.
    assert options["max-restarts"] == "0"
    assert words[-4:] == ["--module", "training.train", "--run", "/x"]


def test_the_users_variables_win(capsys: pytest.CaptureFixture[str]) -> None:
    found = launch.settings({"OMP_NUM_THREADS": "6", "TRAINING_VM_TYPE": "h100-80gb-sxm-ib.8x", "NCCL_IB_SL": "3"})
    assert not {"OMP_NUM_THREADS", "NCCL_IB_SL"} & found.keys()
    assert found["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert found["TORCH_NCCL_ASYNC_ERROR_HANDLING"] != "0"
    assert "yours stay: NCCL_IB_SL" in capsys.readouterr().err


def test_torchrun_kills_before_slurm_does() -> None:
    assert int(launch.SETTINGS["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) == TimingSettings().kill_wait - 10
