"""Crusoe's load balancer controller in a cluster: Services of type LoadBalancer get an address that answers.

The cloud's part of a Service goes first: a finalizer keeps the Service until load balancer and firewall rule are gone.
As with Crusoe's own controller, a managed firewall rule is made once: later changes of the Service do not reach it.
What decides is in `services`, what listens in `forwarder`.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from functools import partial

from localcloud import pools
from localcloud.api import firewall_rules, load_balancers, vpc_subnets
from localcloud.api.load_balancers import KIND
from localcloud.cloud import Cloud
from localcloud.control_plane import ClusterSpec, ControlPlaneError
from localcloud.errors import ApiError as RefusedError
from localcloud.in_cluster import services
from localcloud.in_cluster.forwarder import Address, Forwarder
from localcloud.in_cluster.objects import (
    SERVICES,
    SLICES,
    Object,
    annotation,
    finalizers,
    tell,
    with_finalizers,
)
from localcloud.in_cluster.services import Route
from localcloud.kubernetes.actors import Actor, Place
from localcloud.store import NameTakenError
from localcloud.store import Object as Item

_LOG = logging.getLogger(__name__)
_COMPONENT = "crusoe-load-balancer-controller"
_BUSY_SECONDS, _IDLE_SECONDS = 0.3, 1.0


def balancers(cloud: Cloud) -> Actor:
    """The actor that plays the load balancer controller in a cluster."""

    def act(place: Place, stop: threading.Event) -> None:
        controller = Controller(cloud, place)
        try:
            while not stop.is_set():
                try:
                    busy = controller.round()
                except ControlPlaneError as error:
                    # The watch sees to a control plane that ended; connections go on meanwhile.
                    _LOG.info("load balancers of cluster %s wait: %s", place.cluster.name, error)
                    busy = False
                stop.wait(_BUSY_SECONDS if busy else _IDLE_SECONDS)
        finally:
            cloud.from_thread(controller.inventory.forwarder.close)

    return act


class Controller:
    """The controller in one cluster."""

    def __init__(self, cloud: Cloud, place: Place) -> None:
        """Work in the cluster of `place`."""
        self.inventory = Inventory(cloud, place.cluster)
        self._cloud = cloud
        self._cluster = place.cluster
        self._api = place.api

    def round(self) -> bool:
        """Look once and do what can be done now; answers whether something is under way."""
        found = self._api.list(SERVICES.path())
        wanted = [service for service in found if services.wanted(service)]
        leaving = [service for service in found if services.held(service) and not services.wanted(service)]
        slices = self._api.list(SLICES.path()) if wanted else []
        steps = [partial(self._remove, service) for service in leaving]
        steps += [partial(self._ensure, service, slices) for service in wanted]
        busy = [self._attempt(step) for step in steps]
        self._cloud.from_thread(partial(self.inventory.keep, [services.full_name(service) for service in wanted]))
        return any(busy)

    def _attempt(self, step: Callable[[], bool]) -> bool:
        """One Service's trouble must not hold the others up; the next round tries again."""
        try:
            return step()
        except (ControlPlaneError, RefusedError, OSError) as error:
            _LOG.info("a load balancer of cluster %s waits: %s", self._cluster.name, error)
            return True

    def _ensure(self, service: Object, slices: list[Object]) -> bool:
        path = SERVICES.path(service["metadata"]["namespace"], service["metadata"]["name"])
        if reason := services.refusal(service):
            tell(self._api, service, _COMPONENT, "SyncLoadBalancerFailed", reason)
            return False
        if not services.held(service):
            self._api.merge(path, with_finalizers(service, [*finalizers(service), services.FINALIZER]))
        try:
            balancer_id, vip, listens = self._cloud.from_thread(
                partial(self.inventory.balancer, service, services.routes(service, slices))
            )
            rule_id = self._cloud.from_thread(partial(self.inventory.rule, service))
        except RefusedError as error:
            tell(self._api, service, _COMPONENT, "SyncLoadBalancerFailed", str(error))
            return False
        elsewhere = {port: at for port, at in listens.items() if at != (vip, port)}
        notes = {
            services.BALANCER_ID: balancer_id,
            services.RULE_ID: rule_id or annotation(service, services.RULE_ID),
            services.LISTENS: ",".join(f"{port}={host}:{real}" for port, (host, real) in elsewhere.items()) or None,
        }
        changed = False
        if any(annotation(service, key) != value for key, value in notes.items()):
            self._api.merge(path, {"metadata": {"annotations": notes}})
            changed = True
        ingress = [{"ip": vip}]
        shown = service.get("status", {}).get("loadBalancer", {}).get("ingress", [])
        if [entry.get("ip") for entry in shown] != [vip]:
            self._api.merge(f"{path}/status", {"status": {"loadBalancer": {"ingress": ingress}}})
            tell(self._api, service, _COMPONENT, "EnsuredLoadBalancer", f"Ensured load balancer {vip}", warning=False)
            changed = True
        return changed

    def _remove(self, service: Object) -> bool:
        if self._cloud.from_thread(partial(self.inventory.removed, service)):
            path = SERVICES.path(service["metadata"]["namespace"], service["metadata"]["name"])
            if service.get("status", {}).get("loadBalancer"):
                self._api.merge(f"{path}/status", {"status": {"loadBalancer": {"ingress": None}}})
            current = self._api.get(path)
            if current is not None:
                kept = [name for name in finalizers(current) if name != services.FINALIZER]
                self._api.merge(path, with_finalizers(current, kept))
        return True


class Inventory:
    """A cluster's load balancers and their rules in the cloud's inventory. Everything here runs on the event loop."""

    def __init__(self, cloud: Cloud, cluster: ClusterSpec) -> None:
        """Nothing is read yet."""
        self._cloud = cloud
        self._cluster = cluster
        self.forwarder = Forwarder(self._admits, partial(_dial, cloud, cluster.id))

    async def balancer(self, service: Object, routes: list[Route]) -> tuple[str, str, dict[int, Address]]:
        """A Service's load balancer, made if it is missing and listening: its id, its address, and where it listens."""
        item = self._of(service) or self._new(service)
        vip = item.body["vip"]
        kept = {int(port): (at[0], at[1]) for port, at in item.hidden["listens"].items()}
        listens = await self.forwarder.serve(vip, routes, kept)
        now = {
            "ports": {str(route.port): route.node_port for route in routes},
            "listens": {str(port): list(at) for port, at in listens.items()},
        }
        if any(item.hidden[key] != value for key, value in now.items()):
            item.hidden |= now
            with self._cloud.store.transaction():
                self._cloud.store.save(item)
        return item.id, vip, listens

    async def rule(self, service: Object) -> str | None:
        """The id of a Service's managed firewall rule, made if it is missing; None if none is wanted or possible."""
        if not services.manages_rule(service):
            return None
        store, project = self._cloud.store, self._cluster.project_id
        given = store.get(firewall_rules.KIND, annotation(service, services.RULE_ID) or "")
        if given is not None and given.project_id == project:
            return given.id
        name = services.cloud_name(service, self._cluster.id)
        found = store.named(firewall_rules.KIND, project, name)
        if found is None:
            request = services.rule_request(service, self._subnet().body["vpc_network_id"], self._cluster.id)
            if request is None:
                return None
            body = firewall_rules.RuleCreate.model_validate(request)
            await firewall_rules.create_rule(body, project, self._cloud)
            found = store.named(firewall_rules.KIND, project, name)
        if found is None:
            return None
        if "cluster_id" not in found.hidden:
            found.hidden["cluster_id"] = self._cluster.id
            with store.transaction():
                store.save(found)
        return found.id

    async def removed(self, service: Object) -> bool:
        """Whether nothing of a Service is left in the cloud; what is left is told to go."""
        store, project = self._cloud.store, self._cluster.project_id
        rule_id = annotation(service, services.RULE_ID) if services.manages_rule(service) else None
        if rule_id and store.get(firewall_rules.KIND, rule_id) is not None:
            await firewall_rules.delete_rule(rule_id, project, self._cloud)
        item = self._of(service)
        if item is not None:
            await load_balancers.delete_load_balancer(item.id, project, self._cloud)
        return self._of(service) is None and store.get(firewall_rules.KIND, rule_id or "") is None

    async def keep(self, names: list[str]) -> None:
        """Stop listening for every Service but these."""
        await self.forwarder.keep([item.body["vip"] for item in self._own() if item.hidden["service"] in names])

    def _own(self) -> list[Item]:
        items = self._cloud.store.all(KIND, self._cluster.project_id)
        return [item for item in items if item.hidden["cluster_id"] == self._cluster.id]

    def _of(self, service: Object) -> Item | None:
        name = services.full_name(service)
        return next((item for item in self._own() if item.hidden["service"] == name), None)

    def _new(self, service: Object) -> Item:
        store = self._cloud.store
        name = services.cloud_name(service, self._cluster.id)
        item = load_balancers.new_balancer(self._cloud, self._cluster_item(), self._subnet(), name)
        item.hidden["service"] = services.full_name(service)
        try:
            with store.transaction():
                store.insert(item)
                self._cloud.journal.record("load-balancer.created", item.id, name=name, vip=item.body["vip"])
        except NameTakenError:
            raise RefusedError(409, "already_exists", f"a load balancer named {name!r} already exists") from None
        return item

    def _cluster_item(self) -> Item:
        cluster = self._cloud.store.get(pools.CLUSTER, self._cluster.id)
        if cluster is None:
            raise RefusedError(404, "not_found", f"Kubernetes cluster {self._cluster.id} not found")
        return cluster

    def _subnet(self) -> Item:
        subnet = self._cloud.store.get(vpc_subnets.KIND, self._cluster_item().body["subnet_id"])
        if subnet is None:
            raise RefusedError(404, "not_found", f"the subnet of Kubernetes cluster {self._cluster.id} not found")
        return subnet

    def _admits(self, route: Route, client: str) -> bool:
        """Whether both the Service and the network's firewall let a client in."""
        try:
            subnet = self._subnet().body
        except RefusedError:
            return False
        rules = [item.body for item in self._cloud.store.all(firewall_rules.KIND, parent_id=subnet["vpc_network_id"])]
        return services.in_ranges(client, route.source_ranges) and services.lets_in(
            rules, subnet, client, route.node_port
        )


def _dial(cloud: Cloud, cluster_id: str, host: str, port: int) -> socket.socket:
    """By the dialer that is set at the time of the connection."""
    return cloud.dialer(cluster_id, host, port)
