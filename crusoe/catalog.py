"""What is known of Crusoe's VM types and of AutoClusters before there is an account: `catalog.yaml`, typed.

The file is read at the first question, not at import. What no source gives is None or empty, never a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, cast

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping

Vendor = Literal["nvidia", "amd"]
Fabric = Literal["infiniband", "roce"]

RESOURCE_NAMES: Mapping[Vendor, str] = MappingProxyType({"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"})
"""The extended resource under which Kubernetes counts a vendor's GPUs."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact comes from; `date` is that of the reading or release, `YYYY-MM-DD`."""

    title: str
    url: str
    date: str


@dataclass(frozen=True, slots=True)
class VmType:
    """A VM type, Crusoe's `product_name`.

    Attributes:
        name: such as `h100-80gb-sxm-ib.8x`.
        family: the name without its size.
        gpus: GPUs in one VM, 0 for CPU types.
        gpu_vendor: None for CPU types, as is everything about GPUs.
        gpu_model: in words.
        gpu_memory_gb: of one GPU.
        gres: name of the GPU's type in Slurm, as in `gpu:h100:8`.
        gpus_per_host: GPUs of the physical host, 0 for CPU types.
        whole_host: the VM has all GPUs of its host. False for slices and for CPU types.
        fabric: what connects the GPUs of several hosts; needs a partition of such a network.
        fabric_gbps: of one VM, in Gb/s; None when no source says.
        hcas: names of the adapters that carry the fabric, exact; empty when no source says.
        cpu_cores: None when no source says, like `memory_gb`.
        memory_gb: of the VM.
        architecture: `amd64` or `arm64`, as Kubernetes calls it.
        autoclusters: AutoClusters can repair it.
        resource_name: under which Kubernetes counts its GPUs.
        accelerator: value of the node label `crusoe.ai/accelerator`; None when no source says.
        source: of the name and its GPUs, as one line.
        date: of that source, `YYYY-MM-DD`.
        sources: of the facts that come from elsewhere.
    """

    name: str
    family: str
    gpus: int
    gpu_vendor: Vendor | None
    gpu_model: str | None
    gpu_memory_gb: int | None
    gres: str | None
    gpus_per_host: int
    whole_host: bool
    fabric: Fabric | None
    fabric_gbps: int | None
    hcas: tuple[str, ...]
    cpu_cores: int | None
    memory_gb: int | None
    architecture: str
    autoclusters: bool
    resource_name: str | None
    accelerator: str | None
    source: str
    date: str
    sources: Mapping[str, Source]

    @property
    def is_slice(self) -> bool:
        """A GPU type that shares its host with other VMs, perhaps of other customers."""
        return self.gpus > 0 and not self.whole_host

    @property
    def mounts_shared_disks(self) -> bool:
        """Shared disks mount on CPU types and on whole hosts only (Crusoe CSI driver)."""
        return not self.is_slice


@dataclass(frozen=True, slots=True)
class AutoClusters:
    """AutoClusters' own facts.

    Attributes:
        minimum_versions: minor (`1.33`) to the first version with AutoClusters (`1.33.4-cmk.20`), oldest first; every
            minor above the newest one has it.
        feature: its name in a cluster version's `supported_features`.
        actions: what an issue can be answered with.
        confirmed_issues: issue names that a source gives; a cluster's configuration lists all of them.
        source: where this comes from.
    """

    minimum_versions: Mapping[str, str]
    feature: str
    actions: tuple[str, ...]
    confirmed_issues: tuple[str, ...]
    source: Source


def vm_type(name: object) -> VmType | None:
    """Return the type of exactly this name, None when it is not known.

    CPU families come in more sizes than the sources name, so any size of a known one is taken; whether Crusoe has it is
    for the API to say.
    """
    if not isinstance(name, str):
        return None
    if found := vm_types().get(name):
        return found
    family, _, size = name.partition(".")
    document = _document()
    facts = document["families"].get(family)
    if facts is None or not facts.get("other_sizes") or not re.fullmatch(r"[1-9][0-9]{0,2}x", size):
        return None
    return _vm_type(family, int(size[:-1]), facts, document["sources"])


@cache
def vm_types() -> Mapping[str, VmType]:
    """Return all types that a source names, by name, in the file's order."""
    document = _document()
    types = (
        _vm_type(family, size, facts, document["sources"])
        for family, facts in document["families"].items()
        for size in facts["sizes"]
    )
    return MappingProxyType({each.name: each for each in types})


def suggest(name: object, most: int = 3) -> list[str]:
    """Return the known types that a wrong name probably means, best first, none when it resembles nothing.

    Finds other spellings (`H100-80GB-SXM-IB-8x`), a family without its size or with another one, and typing errors.
    """
    if not isinstance(name, str) or not _letters(name):
        return []
    import difflib

    wanted, names = _letters(name), list(vm_types())
    same = [each for each in names if _letters(each) == wanted]
    if same:
        return same
    stem = (
        wanted if wanted in {_letters(family) for family in _document()["families"]} else _letters(_without_size(name))
    )
    begun = [each for each in names if _letters(each).startswith(stem)] if len(stem) >= 3 else []
    close = difflib.get_close_matches(wanted, [_letters(each) for each in names], n=most, cutoff=0.75)
    begun.sort(key=lambda each: -vm_types()[each].gpus)
    close_names = [each for letters in close for each in names if _letters(each) == letters]
    return list(dict.fromkeys(begun + close_names))[:most]


def whole_host_of(name: object) -> str | None:
    """Return the whole-host type of a slice's family (`a100-80gb.1x` gives `a100-80gb.8x`).

    A whole host is its own; None for CPU types and unknown names.
    """
    found = vm_type(name)
    if found is None or not found.gpus:
        return None
    return f"{found.family}.{found.gpus_per_host}x"


@cache
def autoclusters() -> AutoClusters:
    """Return what is known of AutoClusters."""
    document = _document()
    facts = document["autoclusters"]
    return AutoClusters(
        minimum_versions=MappingProxyType(dict(facts["minimum_versions"])),
        feature=facts["feature"],
        actions=tuple(facts["actions"]),
        confirmed_issues=tuple(facts["confirmed_issues"]),
        source=_source(document["sources"][facts["source"]]),
    )


class _SourceFacts(TypedDict):
    title: str
    url: str
    date: datetime.date


class _GpuFacts(TypedDict):
    vendor: Vendor
    model: str
    memory_gb: int
    gres: str
    per_host: int


class _FamilyFacts(TypedDict):
    sizes: list[int]
    source: str
    other_sizes: NotRequired[bool]
    gpu: NotRequired[_GpuFacts]
    fabric: NotRequired[Fabric]
    fabric_gbps: NotRequired[int]
    hcas: NotRequired[list[str]]
    per_size: NotRequired[dict[int, dict[str, int]]]
    architecture: NotRequired[str]
    accelerator: NotRequired[str]
    autoclusters: NotRequired[bool]
    sources: NotRequired[dict[str, str]]


class _AutoClustersFacts(TypedDict):
    minimum_versions: dict[str, str]
    feature: str
    actions: list[str]
    confirmed_issues: list[str]
    source: str


class _Document(TypedDict):
    sources: dict[str, _SourceFacts]
    families: dict[str, _FamilyFacts]
    autoclusters: _AutoClustersFacts


@cache
def _document() -> _Document:
    import yaml

    # The C loader reads the file in a tenth of the time, but not every build of the library has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name("catalog.yaml").read_text(encoding="utf-8")
    return cast("_Document", yaml.load(text, Loader=loader))  # noqa: S506 - both are safe loaders


def _vm_type(family: str, size: int, facts: _FamilyFacts, sources: Mapping[str, _SourceFacts]) -> VmType:
    gpu = facts.get("gpu")
    main = _source(sources[facts["source"]])
    measures = facts.get("per_size", {}).get(size, {})
    return VmType(
        name=f"{family}.{size}x",
        family=family,
        gpus=size if gpu else 0,
        gpu_vendor=gpu["vendor"] if gpu else None,
        gpu_model=gpu["model"] if gpu else None,
        gpu_memory_gb=gpu["memory_gb"] if gpu else None,
        gres=gpu["gres"] if gpu else None,
        gpus_per_host=gpu["per_host"] if gpu else 0,
        whole_host=gpu is not None and size == gpu["per_host"],
        fabric=facts.get("fabric"),
        fabric_gbps=facts.get("fabric_gbps"),
        hcas=tuple(facts.get("hcas", ())),
        cpu_cores=measures.get("cpu_cores"),
        memory_gb=measures.get("memory_gb"),
        architecture=facts.get("architecture", "amd64"),
        autoclusters=gpu is not None and size == gpu["per_host"] and facts.get("autoclusters", False),
        resource_name=RESOURCE_NAMES[gpu["vendor"]] if gpu else None,
        accelerator=facts.get("accelerator"),
        source=f"{main.title}, {main.url}",
        date=main.date,
        sources=MappingProxyType({fact: _source(sources[key]) for fact, key in facts.get("sources", {}).items()}),
    )


def _source(facts: _SourceFacts) -> Source:
    return Source(facts["title"], facts["url"], str(facts["date"]))


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _without_size(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]\d*x?$", "", text.strip())
