"""The Slurm operator's look at one Kubernetes cluster: every custom resource is made true, one after the other."""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.api_server import ApiServer, Kind
from localcloud.slinky import children, tokens
from localcloud.slinky.conf import SLURMDBD_PORT, Scripts, Surroundings
from localcloud.slinky.kinds import (
    ACCOUNTINGS,
    CONFIG_MAPS,
    CONTROLLERS,
    LOGIN_SETS,
    NODE_SETS,
    REST_APIS,
    SECRETS,
    TOKENS,
)
from localcloud.slinky.objects import Objects, ReconcileError, owned, path_of
from localcloud.slinky.pods import labels_of
from localcloud.slinky.rest import SlurmRest
from localcloud.slinky.shapes import open_field_error
from localcloud.slinky.sshd import host_keys
from localcloud.slinky.values import Object, at, digest, items, name_of, names, part
from localcloud.slinky.workers import NodeSetSync, Slurm

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 5.0

RestOf = Callable[[Callable[[], str]], SlurmRest]
"""The REST API of the cluster's Slurm, given a maker of administrator tokens."""


class Operator:
    """The operator of one Kubernetes cluster. It keeps nothing but what saves work."""

    def __init__(self, api: ApiServer, rest_of: RestOf) -> None:
        """`rest_of` connects to Slurm."""
        self._api = api
        self._objects = Objects(api)
        self._rest_of = rest_of
        self._node_sets = NodeSetSync(api, self._objects, self._slurm_of)
        self._pauses: dict[str, tuple[float, float]] = {}

    def look(self, namespaces: Collection[str], conditions: Collection[str]) -> None:
        """Reconcile everything in these namespaces (all, if none is named)."""
        kinds: Sequence[tuple[Kind, str, Callable[[Object], None]]] = (
            (ACCOUNTINGS, "Accounting", self._accounting),
            (CONTROLLERS, "Controller", self._controller),
            (REST_APIS, "RestApi", self._rest_api),
            (LOGIN_SETS, "LoginSet", self._login_set),
            (NODE_SETS, "NodeSet", lambda item: self._node_sets.sync(item, conditions)),
            (TOKENS, "Token", self._token),
        )
        for kind, name, reconcile in kinds:
            found: list[Object] = self._api.list(kind.path())
            watched = [item for item in found if not namespaces or item["metadata"]["namespace"] in namespaces]
            # One object that can't be read stops the watch of its kind, in every namespace.
            poison = next((item for item in watched if open_field_error(name, part(item, "spec"))), None)
            if poison is not None:
                _LOG.warning("%s %s can't be read: no %s is reconciled", name, name_of(poison), name)
                continue
            for item in watched:
                self._reconcile(item, reconcile)

    def _reconcile(self, item: Object, reconcile: Callable[[Object], None]) -> None:
        uid = item["metadata"]["uid"]
        not_before, pause = self._pauses.get(uid, (0.0, _FIRST_PAUSE_SECONDS))
        if time.monotonic() < not_before:
            return
        try:
            reconcile(item)
        except (ReconcileError, ControlPlaneError) as error:
            reason = error.reason if isinstance(error, ReconcileError) else "SyncFailed"
            self._objects.warn(item, reason, str(error))
            self._pauses[uid] = (time.monotonic() + pause, min(2 * pause, _LONGEST_PAUSE_SECONDS))
        else:
            self._pauses.pop(uid, None)

    def _controller(self, controller: Object) -> None:
        namespace, spec = controller["metadata"]["namespace"], part(controller, "spec")
        surroundings = Surroundings(
            self._accounting_of(controller),
            [item for item in self._api.list(NODE_SETS.path(namespace)) if _refers(item, controller)],
            Scripts(
                *(
                    sorted(self._files(namespace, spec, field))
                    for field in (
                        "prologScriptRefs",
                        "epilogScriptRefs",
                        "prologSlurmctldScriptRefs",
                        "epilogSlurmctldScriptRefs",
                    )
                )
            ),
        )
        self._apply(
            controller,
            children.controller_children(
                controller,
                surroundings,
                users_cgroup_conf="cgroup.conf" in self._files(namespace, spec, "configFileRefs"),
                keys_hash=self._keys_hash(namespace, spec),
            ),
        )

    def _accounting(self, accounting: Object) -> None:
        namespace, spec = accounting["metadata"]["namespace"], part(accounting, "spec")
        password = ""
        if not spec.get("external"):
            password = self._secret_value(namespace, part(spec, "storageConfig", "passwordKeyRef")).decode()
        hashed = self._keys_hash(namespace, spec)
        self._apply(accounting, children.accounting_children(accounting, password, hashed))

    def _rest_api(self, rest_api: Object) -> None:
        self._apply(rest_api, children.rest_api_children(rest_api, self._controller_of(rest_api)))

    def _login_set(self, login_set: Object) -> None:
        namespace, name = login_set["metadata"]["namespace"], name_of(login_set)
        controller = self._controller_of(login_set)
        if self._api.get(SECRETS.path(namespace, f"{name}-ssh-host-keys")) is None:
            secret = owned(host_keys(name, labels_of("login", name)), login_set)
            self._api.create(SECRETS.path(namespace), secret)
        sssd = self._api.get(SECRETS.path(namespace, at(login_set, "spec", "sssdConfRef", "name") or "-"))
        deployment = self._apply(
            login_set, children.login_set_children(login_set, controller, digest(part(sssd, "data")))
        )
        status = children.login_status(login_set, deployment)
        if part(login_set, "status") != status:
            self._api.merge(f"{path_of(login_set)}/status", {"status": status})

    def _token(self, token: Object) -> None:
        namespace, now = token["metadata"]["namespace"], time.time()
        reference = tokens.jwt_key(token)
        key = self._secret_value(namespace, reference)
        owner = self._api.get(SECRETS.path(namespace, reference["name"]))
        secret = self._api.get(SECRETS.path(namespace, tokens.secret_place(token)[0]))
        if owner is None or not tokens.due(token, secret, key, now):
            return
        self._objects.apply(tokens.token_secret(token, owner, key, now))
        issued = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        self._api.merge(f"{path_of(token)}/status", {"status": {"issuedAt": issued}})

    def _slurm_of(self, node_set: Mapping[str, Any]) -> Slurm:
        controller = self._controller_of(node_set)
        namespace, reference = controller["metadata"]["namespace"], tokens.jwt_key(controller)
        key = self._api.get(SECRETS.path(namespace, reference.get("name") or "-"))
        has_rest = any(_refers(item, controller) for item in self._api.list(REST_APIS.path(namespace)))
        if not has_rest or key is None:
            return Slurm(controller, None)
        secret = b64decode(part(key, "data").get(reference.get("key", ""), ""))
        return Slurm(controller, self._rest_of(lambda: tokens.jwt(secret, "slurm", time.time(), 60)))

    def _controller_of(self, item: Mapping[str, Any]) -> Object:
        name: str = at(item, "spec", "controllerRef", "name") or ""
        found = self._api.get(CONTROLLERS.path(item["metadata"]["namespace"], name)) if name else None
        if found is None:
            raise ReconcileError("ControllerRefFailed", f'Controller "{name}" not found')
        return found

    def _accounting_of(self, controller: Object) -> tuple[str, int] | None:
        name = at(controller, "spec", "accountingRef", "name")
        found = self._api.get(ACCOUNTINGS.path(controller["metadata"]["namespace"], name)) if name else None
        if found is None:
            return None
        if at(found, "spec", "external"):
            return found["spec"]["externalConfig"]["host"], found["spec"]["externalConfig"]["port"]
        return f"{name}-accounting", at(found, "spec", "service", "port") or SLURMDBD_PORT

    def _files(self, namespace: str, spec: Mapping[str, Any], field: str) -> list[str]:
        """The names of the files in the ConfigMaps that a field lists."""
        found = [self._api.get(CONFIG_MAPS.path(namespace, name)) for name in names(items(spec, field)) if name]
        return [file for item in found for file in (*part(item, "data"), *part(item, "binaryData"))]

    def _secret_value(self, namespace: str, reference: Mapping[str, Any]) -> bytes:
        name, key = reference.get("name") or "", reference.get("key") or ""
        secret = self._api.get(SECRETS.path(namespace, name)) if name else None
        if secret is None:
            raise ReconcileError("SyncFailed", f'Secret "{name}" not found')
        if key not in part(secret, "data"):
            raise ReconcileError("SyncFailed", f'Secret "{name}" has no key "{key}"')
        return b64decode(secret["data"][key])

    def _keys_hash(self, namespace: str, spec: Mapping[str, Any]) -> str:
        references = [part(spec, field) for field in ("slurmKeyRef", "jwtKeyRef", "jwtHs256KeyRef")]
        found = [
            self._api.get(SECRETS.path(namespace, reference["name"]))
            for reference in references
            if reference.get("name")
        ]
        return digest([part(secret, "data") for secret in found])

    def _apply(self, owner: Object, wanted: Sequence[Object]) -> Object:
        """Apply what an object owns; answers the last as stored."""
        stored: Object = {}
        for item in wanted:
            stored = self._objects.apply(owned(item, owner))
        return stored


def _refers(item: Mapping[str, Any], controller: Mapping[str, Any]) -> bool:
    return at(item, "spec", "controllerRef", "name") == name_of(controller)
