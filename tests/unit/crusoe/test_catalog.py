"""The catalogue of VM types."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from crusoe import catalog

# The types that Crusoe's documentation of AutoClusters lists, with dots for the hyphens that it slips in.
REPAIRED = {
    "l40s-48gb.10x",
    "a100-80gb.8x",
    "a100-80gb-sxm-ib.8x",
    "h100-80gb-sxm-ib.8x",
    "h200-141gb-sxm-ib.8x",
    "b200-180gb-sxm-ib.8x",
    "gb200-186gb-nvl.4x",
    "gb200-186gb-nvl-ib.4x",
    "b300-288gb-sxm-ib.8x",
}
WHOLE_HOSTS = REPAIRED | {"a40.8x", "a100.8x", "mi300x-192gb-ib.8x", "mi355x-288gb-roce.8x"}
ALL = list(catalog.vm_types().values())


@pytest.mark.parametrize(
    ("name", "gpus", "vendor", "per_host", "whole", "fabric", "hcas", "architecture", "resource"),
    [
        ("h100-80gb-sxm-ib.8x", 8, "nvidia", 8, True, "infiniband", ("mlx5_1", "mlx5_8"), "amd64", "nvidia.com/gpu"),
        ("b200-180gb-sxm-ib.8x", 8, "nvidia", 8, True, "infiniband", ("mlx5_5", "mlx5_12"), "amd64", "nvidia.com/gpu"),
        ("l40s-48gb.8x", 8, "nvidia", 10, False, None, (), "amd64", "nvidia.com/gpu"),
        ("l40s-48gb.10x", 10, "nvidia", 10, True, None, (), "amd64", "nvidia.com/gpu"),
        ("a40.1x", 1, "nvidia", 8, False, None, (), "amd64", "nvidia.com/gpu"),
        ("gb200-186gb-nvl.4x", 4, "nvidia", 4, True, None, (), "arm64", "nvidia.com/gpu"),
        ("gb200-186gb-nvl-ib.4x", 4, "nvidia", 4, True, "infiniband", (), "arm64", "nvidia.com/gpu"),
        ("mi300x-192gb-ib.8x", 8, "amd", 8, True, "infiniband", (), "amd64", "amd.com/gpu"),
        ("mi355x-288gb-roce.8x", 8, "amd", 8, True, "roce", (), "amd64", "amd.com/gpu"),
        ("c1a.8x", 0, None, 0, False, None, (), "amd64", None),
        ("s1a.80x", 0, None, 0, False, None, (), "amd64", None),
    ],
)
def test_facts(
    name: str,
    gpus: int,
    vendor: str | None,
    per_host: int,
    whole: bool,
    fabric: str | None,
    hcas: tuple[str, ...],
    architecture: str,
    resource: str | None,
) -> None:
    found = catalog.vm_type(name)
    assert found is not None
    assert (found.gpus, found.gpu_vendor, found.gpus_per_host, found.whole_host) == (gpus, vendor, per_host, whole)
    assert (found.fabric, found.architecture, found.resource_name) == (fabric, architecture, resource)
    assert (found.hcas[:1] + found.hcas[-1:]) == hcas


def test_adapters_are_exact_names_one_per_gpu() -> None:
    named = [each for each in ALL if each.hcas]
    assert {each.family for each in named} == {
        f"{name}-ib" for name in ("a100-80gb-sxm", "h100-80gb-sxm", "h200-141gb-sxm", "b200-180gb-sxm")
    }
    for each in named:
        assert len(set(each.hcas)) == each.gpus
        assert "mlx5_0" not in each.hcas, "mlx5_0 is Ethernet"


def test_whole_hosts_and_repairs() -> None:
    assert {each.name for each in ALL if each.whole_host} == WHOLE_HOSTS
    assert {each.name for each in ALL if each.autoclusters} == REPAIRED
    assert not [each.name for each in ALL if each.autoclusters and (each.is_slice or each.gpu_vendor != "nvidia")]


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.name)
def test_every_type_agrees_with_its_name_and_has_a_dated_source(each: catalog.VmType) -> None:
    assert each.name == f"{each.family}.{each.name.rsplit('.', 1)[1]}"
    assert bool(each.fabric) == bool(re.search(r"-(ib|roce)\.", each.name))
    assert bool(each.gpus) == bool(each.gpu_vendor) == bool(each.gpu_model) == bool(each.resource_name)
    assert each.source.count("https://") == 1
    for date in (each.date, *(source.date for source in each.sources.values())):
        assert re.fullmatch(r"202\d-\d\d-\d\d", date)
    memory = re.search(r"-(\d+)gb", each.name)
    assert memory is None or int(memory[1]) == each.gpu_memory_gb
    for fact in ("fabric_gbps", "hcas", "accelerator"):
        assert not getattr(each, fact) or fact in each.sources, f"{fact} needs a source of its own"
    assert each.accelerator is None or each.accelerator == f"{each.gpu_vendor}-{each.family}"


def test_slurms_name_of_a_gpu_is_part_of_its_models() -> None:
    for each in catalog.vm_types().values():
        assert (each.gres is None) == (each.gpu_model is None)
        assert each.gres is None or each.gres in (each.gpu_model or "").lower(), each.name


def test_every_source_in_the_file_is_used_and_known() -> None:
    document = yaml.safe_load((Path(catalog.__file__).with_name("catalog.yaml")).read_text())
    used = {family["source"] for family in document["families"].values()} | {document["autoclusters"]["source"]}
    used |= {key for family in document["families"].values() for key in family.get("sources", {}).values()}
    assert used == set(document["sources"])


def test_what_no_source_gives_is_none() -> None:
    assert [(each.name, each.cpu_cores, each.memory_gb) for each in ALL if each.cpu_cores or each.memory_gb] == [
        ("a40.1x", 6, 60)
    ]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("b200-180gb-sxm-ib-8x", ["b200-180gb-sxm-ib.8x"]),
        ("gb200-186gb-nvl-4x", ["gb200-186gb-nvl.4x"]),
        ("H100-80GB-SXM-IB.8X", ["h100-80gb-sxm-ib.8x"]),
        ("h100_80gb_sxm_ib_8x", ["h100-80gb-sxm-ib.8x"]),
        ("h100", ["h100-80gb-sxm-ib.8x"]),
        ("mi300x", ["mi300x-192gb-ib.8x"]),
        ("gb200", ["gb200-186gb-nvl.4x", "gb200-186gb-nvl-ib.4x"]),
    ],
)
def test_suggestions(wrong: str, right: list[str]) -> None:
    assert catalog.vm_type(wrong) is None
    assert catalog.suggest(wrong) == right


@pytest.mark.parametrize(
    ("wrong", "first"),
    [
        ("h100-80gb-sxm-ib.4x", "h100-80gb-sxm-ib.8x"),
        ("h1oo-80gb-sxm-ib.8x", "h100-80gb-sxm-ib.8x"),
        ("h100-80gb-sxm-ib", "h100-80gb-sxm-ib.8x"),
        ("l40s", "l40s-48gb.10x"),
        ("a100-80gb", "a100-80gb.8x"),
        ("c1a-8x", "c1a.8x"),
        ("c1a", "c1a.2x"),
    ],
)
def test_the_best_suggestion_comes_first(wrong: str, first: str) -> None:
    assert catalog.suggest(wrong)[0] == first
    assert len(catalog.suggest(wrong)) <= 3


@pytest.mark.parametrize("odd", ["", "   ", "zzz", "ü", "quantum.8x", None, 5, ["h100"], "x" * 10_000])
def test_odd_names(odd: object) -> None:
    assert catalog.vm_type(odd) is None
    assert catalog.whole_host_of(odd) is None
    assert catalog.suggest(odd) == []


def test_whole_host_of_a_slice() -> None:
    assert catalog.whole_host_of("a100-80gb.1x") == "a100-80gb.8x"
    assert catalog.whole_host_of("l40s-48gb.8x") == "l40s-48gb.10x"
    assert catalog.whole_host_of("h100-80gb-sxm-ib.8x") == "h100-80gb-sxm-ib.8x"
    assert catalog.whole_host_of("c1a.8x") is None
    for each in ALL:
        host = catalog.vm_type(catalog.whole_host_of(each.name))
        assert (host is not None and host.whole_host) is (each.gpus > 0)


def test_cpu_families_are_taken_in_any_size_and_gpu_families_are_not() -> None:
    found = catalog.vm_type("c1a.32x")
    assert found is not None
    assert (found.family, found.gpus, found.is_slice, found.mounts_shared_disks) == ("c1a", 0, False, True)
    assert "c1a.32x" not in catalog.vm_types()
    assert catalog.vm_type("c2a.8x") is not None
    for wrong in (
        "l40s-48gb.5x",
        "h100-80gb-sxm-ib.4x",
        "c1a.0x",
        "c1a.x",
        "c1a.8",
        "c1a.08x",
        "c1a.8x.8x",
        "c9z.8x",
        "c1a.9999x",
    ):
        assert catalog.vm_type(wrong) is None


def test_shared_disks_mount_on_cpu_types_and_whole_hosts_only() -> None:
    assert {each.name for each in ALL if not each.mounts_shared_disks} == {each.name for each in ALL if each.is_slice}


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        catalog.vm_types()["x"] = ALL[0]  # type: ignore[index] - wrong on purpose
    with pytest.raises(AttributeError):
        ALL[0].gpus = 9  # type: ignore[misc] - wrong on purpose


def test_autoclusters_facts() -> None:
    facts = catalog.autoclusters()
    assert dict(facts.minimum_versions) == {"1.31": "1.31.7-cmk.24", "1.32": "1.32.7-cmk.22", "1.33": "1.33.4-cmk.20"}
    assert facts.actions == ("REPLACE_NODE", "OFF")
    assert set(facts.confirmed_issues) == {"XID_74", "GPU_FELL_OFF_THE_BUS"}
    assert facts.feature == "autoclusters"
