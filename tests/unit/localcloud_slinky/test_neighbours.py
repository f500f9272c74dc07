"""cert-manager's Secrets, MariaDB's children, and the charts' own promises."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from localcloud.slinky.certificates import secret_of
from localcloud.slinky.mariadb import children
from localcloud.slinky.values import Object
from tests.unit.localcloud_slinky.support import resource

CHARTS = Path(__file__).parents[3] / "localcloud" / "charts"
# One that is linked there is no stand-in.
NAMES = sorted(path.parent.name for path in CHARTS.glob("*/Chart.yaml") if not path.parent.is_symlink())


def test_a_certificates_secret_holds_a_chain_for_its_names() -> None:
    spec = {"secretName": "s", "dnsNames": ["hook.slinky.svc"], "duration": "1h", "issuerRef": {"name": "i"}}
    data = secret_of(resource("Certificate", "c", spec))["data"]
    certificate, authority = (x509.load_pem_x509_certificate(b64decode(data[key])) for key in ("tls.crt", "ca.crt"))
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hook.slinky.svc"]
    assert b"PRIVATE KEY" in b64decode(data["tls.key"])


def test_mariadb() -> None:
    spec: Object = {
        "image": "registry.example/mariadb:10.11",
        "storage": {"size": "10Gi", "storageClassName": "ssd"},
        "replicas": 1,
        "database": "slurm_acct_db",
        "username": "slurm",
        "passwordSecretKeyRef": {"name": "db", "key": "password"},
        "myCnf": "[mariadb]\n",
        "resources": {"limits": {"memory": "6Gi"}},
    }
    files, service, stateful = children(resource("MariaDB", "mariadb", spec))
    assert files["data"] == {"0-my.cnf": "[mariadb]\n"}
    assert (service["metadata"]["name"], service["spec"]["ports"][0]["port"]) == ("mariadb", 3306)
    claim = stateful["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == "ssd"
    assert claim["resources"] == {"requests": {"storage": "10Gi"}}
    container = stateful["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"memory": "6Gi"}}
    changed = children(resource("MariaDB", "mariadb", {**spec, "myCnf": "[mariadb]\nport=1\n"}))[2]
    assert changed["spec"]["template"]["metadata"] != stateful["spec"]["template"]["metadata"]


def unknown_keys(values: Any, schema: Any) -> list[str]:
    """Keys of values that a chart's schema doesn't know."""
    if not isinstance(values, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    return [key for key in values if key not in known] + [  # pyright: ignore[reportUnknownVariableType]  # any JSON
        found
        for key, value in values.items()  # pyright: ignore[reportUnknownVariableType]  # any JSON
        if key in known
        for found in unknown_keys(value, known[key])
    ]


@pytest.mark.parametrize("chart", NAMES)
def test_a_charts_schema_is_closed_and_knows_its_own_values(chart: str) -> None:
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    assert schema["additionalProperties"] is False
    assert unknown_keys(values, schema) == []


def test_versions() -> None:
    found = {name: yaml.safe_load((CHARTS / name / "Chart.yaml").read_text()) for name in NAMES}
    assert {name: str(chart["version"]) for name, chart in found.items() if "slurm" in name} == {
        "slurm-bridge": "1.2.1",
        "slurm-operator": "1.2.1",
        "slurm-operator-crds": "1.2.1",
    }
    assert found["cert-manager"]["version"] == "v1.21.2"
    assert all(chart["name"] == name for name, chart in found.items())


def test_uninstalling_the_definitions_deletes_them() -> None:
    for path in (CHARTS / "slurm-operator-crds" / "templates").glob("*.yaml"):
        assert "annotations" not in yaml.safe_load(path.read_text())["metadata"]
