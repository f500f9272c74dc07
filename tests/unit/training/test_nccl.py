"""Settings of NCCL: exact, from the catalogue, and never a guess."""

from __future__ import annotations

import pytest

from crusoe.catalog import VmType, vm_types
from training import nccl
from training.nccl import TABLE, VM_TYPE, advice
from training.vm_types import text


def advised(name: str, **environ: str) -> dict[str, str]:
    found = advice({VM_TYPE: name, **environ}, lambda: [], lambda _path: False)
    return {variable: setting.value for variable, setting in found.settings.items()}


def matches(listed: str, adapter: str) -> bool:
    """Whether NCCL takes an adapter, by the rules of its documentation for NCCL_IB_HCA."""
    exact, names = listed.startswith("="), listed.removeprefix("=").split(",")
    return any(adapter == name.split(":")[0] if exact else adapter.startswith(name.split(":")[0]) for name in names)


def test_the_table_is_that_of_the_catalogue() -> None:
    assert TABLE.read_text(encoding="utf-8") == text(), "run python -m training.vm_types"


@pytest.mark.parametrize("vm_type", [each for each in vm_types().values() if each.hcas], ids=lambda each: each.name)
def test_exactly_the_adapters_of_the_fabric_are_taken(vm_type: VmType) -> None:
    listed = advised(vm_type.name)["NCCL_IB_HCA"]
    assert {f"mlx5_{number}" for number in range(20) if matches(listed, f"mlx5_{number}")} == set(vm_type.hcas)
    assert all(name.endswith(":1") for name in listed.removeprefix("=").split(","))


def test_the_users_value_wins_and_it_is_said() -> None:
    environ = {VM_TYPE: "h100-80gb-sxm-ib.8x", "NCCL_IB_HCA": "mlx5_3", "NCCL_IB_SL": "0"}
    found = advice(environ, lambda: [], lambda _path: False)
    assert not {"NCCL_IB_HCA", "NCCL_IB_SL"} & found.settings.keys()
    assert "yours stay: NCCL_IB_HCA, NCCL_IB_SL" in found.sentence


@pytest.mark.parametrize("name", ["x900-1tb.8x", "c1a.16x", "mlx"])
def test_an_unknown_type_leaves_everything_unset_and_says_so(name: str) -> None:
    found = advice({VM_TYPE: name}, lambda: ["NVIDIA H100 80GB HBM3"])
    assert not found.settings
    assert name in found.sentence


def test_unknown_adapters_are_left_to_the_user() -> None:
    found = advice({VM_TYPE: "b300-288gb-sxm-ib.8x"}, lambda: [], lambda _path: False)
    assert "NCCL_IB_HCA" not in found.settings
    assert "left unset: NCCL_IB_HCA" in found.sentence
    assert "NCCL_IB_TIMEOUT" in found.settings


def test_a_type_without_fabric_gets_no_setting_of_one() -> None:
    assert not any(variable.startswith("NCCL_IB") for variable in advised("l40s-48gb.10x"))


@pytest.mark.parametrize(
    ("models", "family"),
    [
        (["NVIDIA H100 80GB HBM3"] * 8, "h100-80gb-sxm-ib"),
        (["NVIDIA H200"] * 8, "h200-141gb-sxm-ib"),
        (["NVIDIA L40S"] * 8, "l40s-48gb"),
        (["NVIDIA A100-SXM4-80GB"] * 8, None),
        (["NVIDIA GB200"] * 4, None),
        (["NVIDIA T4"], None),
        (["NVIDIA H100 80GB HBM3", "NVIDIA L40S"], None),
        ([], None),
    ],
)
def test_the_gpus_tell_the_type_where_only_one_fits(models: list[str], family: str | None) -> None:
    found = advice({}, lambda: models, lambda _path: False)
    assert bool(found.settings) == (family is not None)
    assert (family or VM_TYPE) in found.sentence


def test_the_topology_file_is_named_where_it_is() -> None:
    found = advice({VM_TYPE: "h100-80gb-sxm-ib.8x"}, lambda: [], lambda path: path.startswith("/etc/crusoe"))
    assert found.settings["NCCL_TOPO_FILE"].value == "/etc/crusoe/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml"
    assert "NCCL_TOPO_FILE" not in advised("h100-80gb-sxm-ib.8x")


def test_every_setting_has_a_reason() -> None:
    for name in nccl.table():
        found = advice({VM_TYPE: name}, lambda: [], lambda _path: True)
        assert all(len(setting.why) > 20 for setting in found.settings.values())
