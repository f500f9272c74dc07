"""cert-manager, as far as Slinky's webhook needs it: Certificates become Secrets, webhook configurations get their CA.

Each part works while its Deployment has a ready pod. Whatever issuer a Certificate names, it gets a CA of its own.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from localcloud.kubernetes.api_server import ApiServer
from localcloud.kubernetes.pki import serving_certificate
from localcloud.slinky.admission import seconds_of
from localcloud.slinky.kinds import CERTIFICATES, MUTATING, SECRETS, VALIDATING
from localcloud.slinky.values import Object, at, items, name_of, part

_DEFAULT_DURATION = "2160h"
_INJECT = "cert-manager.io/inject-ca-from"


def issue(api: ApiServer) -> None:
    """Make the Secrets of all Certificates that have none."""
    for certificate in api.list(CERTIFICATES.path()):
        namespace, secret_name = certificate["metadata"]["namespace"], certificate["spec"]["secretName"]
        if api.get(SECRETS.path(namespace, secret_name)) is None:
            api.create(SECRETS.path(namespace), secret_of(certificate))
        if not any(item.get("status") == "True" for item in items(certificate, "status", "conditions")):
            api.merge(f"{CERTIFICATES.path(namespace, name_of(certificate))}/status", {"status": _ready()})


def secret_of(certificate: Mapping[str, Any]) -> Object:
    """The Secret of a Certificate, with a new key."""
    spec = part(certificate, "spec")
    names: list[str] = list(spec.get("dnsNames") or [spec.get("commonName") or name_of(certificate)])
    lifetime = seconds_of(spec.get("duration") or _DEFAULT_DURATION) or 0.0
    made = serving_certificate(names, timedelta(seconds=lifetime))
    files = {"ca.crt": made.authority, "tls.crt": made.certificate, "tls.key": made.key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": spec["secretName"],
            "namespace": certificate["metadata"]["namespace"],
            "annotations": {"cert-manager.io/certificate-name": name_of(certificate)},
        },
        "type": "kubernetes.io/tls",
        "data": {name: b64encode(text.encode()).decode() for name, text in files.items()},
    }


def inject(api: ApiServer) -> None:
    """Put the CA of the Certificate that a webhook configuration names into each of its webhooks."""
    for kind in (VALIDATING, MUTATING):
        for configuration in api.list(kind.path()):
            source: str = at(configuration, "metadata", "annotations", _INJECT) or ""
            namespace, slash, name = source.partition("/")
            authority = _authority(api, namespace, name) if slash else None
            hooks = items(configuration, "webhooks")
            if authority is None or all(at(hook, "clientConfig", "caBundle") == authority for hook in hooks):
                continue
            changed = [{"name": hook["name"], "clientConfig": {"caBundle": authority}} for hook in hooks]
            api.merge(kind.path(name=name_of(configuration)), {"webhooks": changed}, strategic=True)


def _authority(api: ApiServer, namespace: str, name: str) -> str | None:
    certificate = api.get(CERTIFICATES.path(namespace, name))
    secret = api.get(SECRETS.path(namespace, certificate["spec"]["secretName"])) if certificate else None
    return at(secret, "data", "ca.crt")


def _ready() -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "Certificate is up to date and has not expired",
        "lastTransitionTime": now,
    }
    return {"conditions": [condition]}
