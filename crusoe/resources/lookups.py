"""Look-ups, each in two forms: `get_x` answers at once, `get_x_output` takes and returns outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import pulumi

from crusoe.resources.base import PACKAGE, output_type

T = TypeVar("T")


@output_type
class KubernetesVersion:
    """A version of clusters or node pools; `generation` is v1 or v2."""

    name: str
    generation: str | None
    tags: Sequence[str]
    features: Sequence[str]


@output_type
class KubernetesVersions:
    """The versions that the project is offered, newest first."""

    cluster_versions: Sequence[KubernetesVersion]
    node_pool_versions: Sequence[KubernetesVersion]


@output_type
class VmType:
    """A VM type."""

    name: str
    description: str
    cpu_cores: int
    memory_gb: int
    disk_gb: int
    gpus: int
    gpu_type: str


@output_type
class VmTypes:
    """The VM types that the project can use."""

    vm_types: Sequence[VmType]


@output_type
class Capacity:
    """Free VMs of a type in a location; one takes `num_slices` of the quota `quota_type`."""

    location: str
    type: str
    quantity: int
    num_slices: int
    quota_type: str


@output_type
class Capacities:
    """Capacity by location and type. Capacity is not quota."""

    capacities: Sequence[Capacity]


@output_type
class Quota:
    """A quota, in slices of a VM family or GiB of a disk type."""

    name: str
    max: int
    used: int
    available: int


@output_type
class Quotas:
    """What the project may use and does use. Quota is not capacity."""

    quotas: Sequence[Quota]


@output_type
class IbNetworkCapacity:
    """Free GPUs of a VM type in an InfiniBand network."""

    slice_type: str
    quantity: int


@output_type
class IbNetwork:
    """An InfiniBand network."""

    id: str
    name: str
    location: str
    capacities: Sequence[IbNetworkCapacity]


@output_type
class IbNetworks:
    """The InfiniBand networks of the project."""

    ib_networks: Sequence[IbNetwork]


def get_kubernetes_versions(
    *,
    product_name: str | None = None,
    show_deprecated: bool | None = None,
    opts: pulumi.InvokeOptions | None = None,
) -> KubernetesVersions:
    """Return the versions that the project is offered, of all VM types or of one."""
    arguments = {"productName": product_name, "showDeprecated": show_deprecated}
    return _now("getKubernetesVersions", arguments, opts, KubernetesVersions)


def get_kubernetes_versions_output(
    *,
    product_name: pulumi.Input[str] | None = None,
    show_deprecated: pulumi.Input[bool] | None = None,
    opts: pulumi.InvokeOptions | None = None,
) -> pulumi.Output[KubernetesVersions]:
    """Return the versions that the project is offered, of all VM types or of one."""
    arguments = {"productName": product_name, "showDeprecated": show_deprecated}
    return _later("getKubernetesVersions", arguments, opts, KubernetesVersions)


def get_vm_types(*, opts: pulumi.InvokeOptions | None = None) -> VmTypes:
    """Return the VM types that the project can use."""
    return _now("getVmTypes", {}, opts, VmTypes)


def get_vm_types_output(*, opts: pulumi.InvokeOptions | None = None) -> pulumi.Output[VmTypes]:
    """Return the VM types that the project can use."""
    return _later("getVmTypes", {}, opts, VmTypes)


def get_capacities(
    *, product_name: str | None = None, location: str | None = None, opts: pulumi.InvokeOptions | None = None
) -> Capacities:
    """Return how many VMs are free now, of all types and locations or of one."""
    return _now("getCapacities", {"productName": product_name, "location": location}, opts, Capacities)


def get_capacities_output(
    *,
    product_name: pulumi.Input[str] | None = None,
    location: pulumi.Input[str] | None = None,
    opts: pulumi.InvokeOptions | None = None,
) -> pulumi.Output[Capacities]:
    """Return how many VMs are free now, of all types and locations or of one."""
    return _later("getCapacities", {"productName": product_name, "location": location}, opts, Capacities)


def get_quotas(*, opts: pulumi.InvokeOptions | None = None) -> Quotas:
    """Return the project's quotas."""
    return _now("getQuotas", {}, opts, Quotas)


def get_quotas_output(*, opts: pulumi.InvokeOptions | None = None) -> pulumi.Output[Quotas]:
    """Return the project's quotas."""
    return _later("getQuotas", {}, opts, Quotas)


def get_ib_networks(*, opts: pulumi.InvokeOptions | None = None) -> IbNetworks:
    """Return the InfiniBand networks of the project."""
    return _now("getIbNetworks", {}, opts, IbNetworks)


def get_ib_networks_output(*, opts: pulumi.InvokeOptions | None = None) -> pulumi.Output[IbNetworks]:
    """Return the InfiniBand networks of the project."""
    return _later("getIbNetworks", {}, opts, IbNetworks)


def _now(function: str, arguments: Mapping[str, Any], opts: pulumi.InvokeOptions | None, result: type[T]) -> T:
    answer = pulumi.runtime.invoke(f"{PACKAGE}:index:{function}", dict(arguments), opts, result)
    return cast("T", answer.value)


def _later(
    function: str, arguments: Mapping[str, Any], opts: pulumi.InvokeOptions | None, result: type[T]
) -> pulumi.Output[T]:
    return cast(
        "pulumi.Output[T]",
        pulumi.runtime.invoke_output(f"{PACKAGE}:index:{function}", dict(arguments), cast("Any", opts), result),
    )
