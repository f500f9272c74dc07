"""Objects of a cluster to build tests from."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
SSD, FS = "ssd.csi.crusoe.ai", "fs.csi.crusoe.ai"


def storage_class(provisioner: str = SSD, **more: Any) -> Json:
    """A StorageClass named `fast`."""
    return {"metadata": {"name": "fast"}, "provisioner": provisioner, **more}


def claim(size: str = "10Gi", *, driver: str = SSD, annotations: Json | None = None, **spec: Any) -> Json:
    """A claim whose time has come."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "home",
            "namespace": "slurm",
            "uid": "5d9e5c6e-8a53-4b8e-9f2e-d2f1a7c0ffee",
            "annotations": {"volume.kubernetes.io/storage-provisioner": driver, **(annotations or {})},
        },
        "spec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def disk(size: str = "10GiB") -> Json:
    """A disk as the REST API shows it, with its size in GiB."""
    return {
        "id": "disk-id",
        "name": "disk-name",
        "size": size,
        "gib": int(size.removesuffix("GiB")),
        "location": "us-east1-a",
        "serial_number": "SERIAL",
    }


def service(*ports: Json, annotations: Json | None = None, **spec: Any) -> Json:
    """A Service of type LoadBalancer; without ports given it serves ssh."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "login", "namespace": "slurm", "annotations": annotations or {}},
        "spec": {
            "type": "LoadBalancer",
            "ports": list(ports) or [{"name": "ssh", "port": 22, "nodePort": 30022, "protocol": "TCP"}],
            **spec,
        },
    }


def endpoints(*addresses: str, port: int = 2222, name: str = "ssh", service: str = "login", ready: bool = True) -> Json:
    """An EndpointSlice."""
    return {
        "metadata": {"namespace": "slurm", "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": name, "port": port}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}} for address in addresses],
    }
