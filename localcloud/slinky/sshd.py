"""The host keys of login nodes and of workers with sshd: made once, so that users see no changed keys."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from localcloud.slinky.values import Object

_RSA_BITS = 3072


def host_keys(name: str, labels: Mapping[str, str]) -> Object:
    """The Secret with new host keys of every type that sshd offers."""
    made = {
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
        "ecdsa": ec.generate_private_key(ec.SECP256R1()),
        "rsa": rsa.generate_private_key(65537, _RSA_BITS),
    }
    data: dict[str, str] = {}
    for kind, key in made.items():
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        data[f"ssh_host_{kind}_key"] = b64encode(private).decode()
        data[f"ssh_host_{kind}_key.pub"] = b64encode(public + b"\n").decode()
    metadata = {"name": f"{name}-ssh-host-keys", "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True, "data": data}
