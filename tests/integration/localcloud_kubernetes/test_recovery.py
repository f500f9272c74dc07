"""A control plane after kills, reboots, broken starts and taken ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from localcloud.control_plane import ClusterSpec, ControlPlaneError
from localcloud.kubernetes import KwokControlPlane
from localcloud.kubernetes.api_server import NODES, Kind
from localcloud.kubernetes.home import COMPONENTS, Home, Ports, Record, write_private
from localcloud.kubernetes.ports import answers, choose_ports
from localcloud.kubernetes.watching import WatchingApi
from tests.integration.localcloud_kubernetes.conftest import MakePlane
from tests.integration.localcloud_kubernetes.support import (
    ALL,
    Json,
    Live,
    components_of,
    processes_below,
    until,
)
from tests.processes import kill
from tests.unit.localcloud_kubernetes.support import CLUSTER, OIDC, cluster, h100
from tools.toolchain import binary

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).resolve().parents[3]
OTHER = cluster(id="3b1f0000-0000-4000-8000-000000000002", name="other", add_ons=())


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Generator[Live]:
    """A control plane that each test breaks and mends."""
    root = tmp_path_factory.mktemp("recovery") / "kubernetes"
    plane = KwokControlPlane(root, binary=binary, start_seconds=60)
    plane.create(CLUSTER)
    plane.apply_nodes(CLUSTER.id, [h100(1)])
    yield Live(plane, CLUSTER, root)
    plane.delete_all()
    assert processes_below(root) == []


def fresh(live: Live) -> KwokControlPlane:
    """What a local cloud that was started anew has: nothing but the folder."""
    return KwokControlPlane(live.root, binary=binary, start_seconds=60)


def node_names(live: Live) -> list[str]:
    return [node.name for node in live.plane.nodes(CLUSTER.id) if node.ready]


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_died_is_started_again_and_the_others_go_on(live: Live, component: str) -> None:
    before = live.processes()
    kill(before[component])
    fresh(live).ensure_running(CLUSTER)
    after = live.processes()
    assert set(after) == ALL
    assert after[component].pid != before[component].pid
    assert node_names(live) == [h100(1).name]


def test_nothing_is_restarted_while_all_run(live: Live) -> None:
    before = {name: process.pid for name, process in live.processes().items()}
    fresh(live).ensure_running(CLUSTER)
    assert {name: process.pid for name, process in live.processes().items()} == before


def test_after_a_reboot_the_same_cluster_comes_back(live: Live) -> None:
    """All processes are dead, and their pids belong to others."""
    live.kubectl("create", "namespace", "kept")
    given = live.plane.credentials(CLUSTER, "admin_cert")
    kill(*live.processes().values())
    for name in COMPONENTS:
        live.home.pid_file(name).write_text(str(os.getpid()))
    fresh(live).ensure_running(CLUSTER)
    assert set(live.processes()) == ALL
    # The kubeconfig from before still works: same address, same CA.
    (live.root / "kubeconfig-of-the-test").write_text(given.kube_config)
    live.kubectl("get", "namespace", "kept")
    assert node_names(live) == [h100(1).name]


def test_stopping_ends_everything_and_starting_brings_it_back(live: Live) -> None:
    KwokControlPlane(live.root, binary=binary).stop_all()
    assert processes_below(live.root) == []
    fresh(live).ensure_running(CLUSTER)
    assert node_names(live) == [h100(1).name]


def test_tools_that_moved_are_found_again(live: Live, tmp_path: Path) -> None:
    """The tool cache was renewed while the cluster was down."""
    moved = tmp_path / "kwok"
    shutil.copy2(binary("kwok"), moved)
    live.plane.stop_all()
    KwokControlPlane(live.root, binary=lambda name: moved if name == "kwok" else binary(name)).ensure_running(CLUSTER)
    assert live.processes()["kwok-controller"].exe() == str(moved)
    live.plane.stop_all()
    moved.unlink()
    fresh(live).ensure_running(CLUSTER)
    assert set(live.processes()) == ALL


def test_extra_arguments_take_effect_at_a_rotation(live: Live) -> None:
    wanted = cluster(apiserver_extra_args={"goaway-chance": "0.001"})
    before = {name: process.pid for name, process in live.processes().items()}
    fresh(live).update(wanted)
    assert "--goaway-chance=0.001" not in live.processes()["kube-apiserver"].cmdline()
    fresh(live).rotate(wanted)
    after = live.processes()
    assert "--goaway-chance=0.001" in after["kube-apiserver"].cmdline()
    assert {name for name in ALL if after[name].pid != before[name]} == {"kube-apiserver"}
    fresh(live).rotate(CLUSTER)
    assert "--goaway-chance=0.001" not in live.processes()["kube-apiserver"].cmdline()
    assert node_names(live) == [h100(1).name]


def test_extra_arguments_take_effect_when_a_stopped_cluster_starts(live: Live) -> None:
    fresh(live).stop_all()
    fresh(live).ensure_running(cluster(scheduler_extra_args={"v": "1"}))
    assert "--v=1" in live.processes()["kube-scheduler"].cmdline()
    fresh(live).rotate(CLUSTER)


def test_extra_arguments_that_a_component_refuses_are_put_back(live: Live) -> None:
    started = time.monotonic()
    with pytest.raises(ControlPlaneError, match="no-such-flag") as caught:
        fresh(live).rotate(cluster(controller_manager_extra_args={"no-such-flag": "1"}))
    assert "put back" in str(caught.value)
    assert time.monotonic() - started < 30
    assert set(live.processes()) == ALL
    assert node_names(live) == [h100(1).name]


def test_a_port_that_somebody_took_is_named(live: Live) -> None:
    record = live.home.read()
    assert record is not None
    port = record.ports.kube_scheduler
    kill(live.processes()["kube-scheduler"])
    until(lambda: not answers(port))
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ControlPlaneError, match=f"Port {port} on 127.0.0.1"):
        fresh(live).ensure_running(CLUSTER)
    fresh(live).ensure_running(CLUSTER)


def test_a_port_that_somebody_took_before_the_first_start_is_given_up(
    make_plane: MakePlane, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane, home = make_plane(), Home(root, OTHER.id)
    with socket.create_server(("127.0.0.1", 0)) as other:
        wanted = Ports(*choose_ports(6, ()))
        chosen = [replace(wanted, kwok_controller=other.getsockname()[1]), wanted]
        monkeypatch.setattr(plane, "_choose_ports", lambda: chosen.pop(0))
        plane.create(OTHER)
    record = home.read()
    assert record is not None
    assert record.ports == wanted
    assert set(components_of(home)) == ALL


def test_two_clusters_share_no_port_and_no_setting_of_the_user(
    live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = live.home.read()
    assert record is not None
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KWOK_KUBE_APISERVER_PORT", str(record.ports.kube_apiserver))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    live.plane.create(OTHER)
    assert list(tmp_path.iterdir()) == []
    try:
        ports = [record.ports for home in (live.home, Home(live.root, OTHER.id)) if (record := home.read())]
        numbers = [number for item in ports for component in COMPONENTS for number in item.of(component)]
        assert len(set(numbers)) == 12
        assert [node.name for node in live.plane.nodes(OTHER.id)] == []
    finally:
        live.plane.delete(OTHER.id)
    assert not Home(live.root, OTHER.id).folder.exists()
    assert set(live.processes()) == ALL


# Milliseconds into a creation that takes some four seconds.
@pytest.mark.parametrize("moment", [50, 1000, 3000])
def test_a_creation_that_was_killed_is_finished_by_the_next(make_plane: MakePlane, root: Path, moment: int) -> None:
    module = "tests.integration.localcloud_kubernetes.creator"
    creator = subprocess.Popen(
        [sys.executable, "-m", module, str(root)], cwd=REPOSITORY, stdout=subprocess.PIPE, start_new_session=True
    )
    assert creator.stdout is not None
    creator.stdout.readline()
    time.sleep(moment / 1000)
    os.killpg(creator.pid, signal.SIGKILL)
    creator.wait()
    creator.stdout.close()
    plane = make_plane()
    plane.ensure_running(CLUSTER)
    live = Live(plane, CLUSTER, root)
    assert set(live.processes()) == ALL
    assert len([line for line in processes_below(root) if "/bin/" in line]) == len(ALL)
    live.kubectl("get", "deployment", "gpu-operator", "-n", "nvidia-gpu-operator")


def test_what_a_power_cut_left_of_a_creation_is_thrown_away(make_plane: MakePlane, root: Path) -> None:
    home = Home(root, OTHER.id)
    home.write(Record(Ports(*choose_ports(6, ()))))
    write_private(home.kwok_yaml, "half a")
    left = home.folder / "etcd" / "left"
    write_private(left, "")
    before = home.read()
    make_plane().ensure_running(OTHER)
    assert not left.exists()
    after = home.read()
    assert before is not None
    assert after is not None
    assert after.ports == before.ports


def test_a_control_plane_outlives_the_process_that_made_it(make_plane: MakePlane, root: Path) -> None:
    module = "tests.integration.localcloud_kubernetes.creator"
    subprocess.run([sys.executable, "-m", module, str(root)], cwd=REPOSITORY, check=True, start_new_session=True)
    before = components_of(Home(root, CLUSTER.id))
    assert set(before) == ALL
    # Not in the session of its maker, so that neither Ctrl-C nor the end of a terminal reaches it.
    assert {os.getsid(process.pid) for process in before.values()} == {process.pid for process in before.values()}
    make_plane().ensure_running(CLUSTER)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (cluster(apiserver_extra_args={"no-such-flag": "1"}), "no-such-flag"),
        (cluster(scheduler_extra_args={"feature-gates": "NoSuchGate=true"}), "NoSuchGate"),
        (cluster(service_cluster_ip_range="not a valid cidr"), "not a valid cidr"),
    ],
)
def test_a_creation_that_cannot_succeed_says_why_and_leaves_nothing(
    make_plane: MakePlane, root: Path, broken: ClusterSpec, reason: str
) -> None:
    started = time.monotonic()
    with pytest.raises(ControlPlaneError, match=reason):
        make_plane().create(broken)
    assert time.monotonic() - started < 30
    assert processes_below(root) == []
    assert not Home(root, broken.id).folder.exists()


def test_a_start_is_bounded(make_plane: MakePlane, root: Path) -> None:
    with pytest.raises(ControlPlaneError, match=r"did not (come up|start)"):
        make_plane(start_seconds=0.2).create(CLUSTER)
    assert processes_below(root) == []


def test_data_that_is_gone_is_an_error_and_not_an_empty_cluster(make_plane: MakePlane, root: Path) -> None:
    Home(root, OTHER.id).write(Record(Ports(*choose_ports(6, ())), created=True))
    with pytest.raises(ControlPlaneError, match="The data of cluster other is gone"):
        make_plane().ensure_running(OTHER)


def test_private_clusters_answer_inside_their_vpc_only(make_plane: MakePlane) -> None:
    private = cluster(private=True, add_ons=(), oidc=OIDC.__class__("https://login.example", "platform"))
    inside, outside = make_plane(), make_plane(outside_vpc=True)
    inside.create(private)
    reached = inside.credentials(private, "admin_cert")
    assert httpx.get(f"{reached.cluster_address}/readyz", verify=False, trust_env=False).status_code == httpx.codes.OK
    lost = outside.credentials(private, "admin_cert")
    assert lost.cluster_address.startswith("https://127.0.0.1:")
    assert lost.cluster_address in lost.kube_config
    with pytest.raises(httpx.TimeoutException):
        httpx.get(f"{lost.cluster_address}/readyz", timeout=1, trust_env=False)
    # A public one is reached from anywhere, and OIDC settings don't keep an API server from starting offline.
    public = cluster(private=False, add_ons=(), oidc=private.oidc)
    assert outside.credentials(public, "admin_cert").cluster_address == reached.cluster_address
    command = components_of(Home(inside.root, private.id))["kube-apiserver"].cmdline()
    assert "--oidc-issuer-url=https://login.example" in command
    # After a restart of the local cloud the address is the same.
    outside.close()
    assert make_plane(outside_vpc=True).credentials(private, "admin_cert").cluster_address == lost.cluster_address


@pytest.fixture
def watching(live: Live) -> Generator[WatchingApi]:
    """What actors ask, on a control plane that runs."""
    fresh(live).create(CLUSTER)
    with live.plane._watching(CLUSTER.id) as api:  # pyright: ignore[reportPrivateUsage]  what starts actors gives it to them
        yield api


def lists_of_config_maps(live: Live) -> int:
    """How often anybody has listed ConfigMaps of one namespace, but for watches."""
    metrics = live.kubectl("get", "--raw", "/metrics").splitlines()
    parts = ('resource="configmaps"', 'scope="namespace"', 'verb="LIST"')
    found = [line for line in metrics if line.startswith("apiserver_request_total") and all(p in line for p in parts)]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in found)


def test_what_is_watched_is_current_and_costs_no_requests(live: Live, watching: WatchingApi) -> None:
    maps = Kind("v1", "configmaps", namespaced=True)

    def seen(name: str) -> str | None:
        """The value by list and by get, which must be the same."""
        items = {item["metadata"]["name"]: item for item in watching.list(maps.path("default"))}
        alone = watching.get(maps.path("default", name))
        assert items.get(name) == alone
        return alone["data"]["value"] if alone else None

    def config_map(name: str, value: str) -> Json:
        metadata = {"name": name, "namespace": "default"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}

    assert seen("other") is None
    asked = lists_of_config_maps(live)
    # Of others:
    live.create(config_map("other", "1"))
    until(lambda: seen("other") == "1")
    live.kubectl("patch", "configmap", "other", "--type=merge", "--patch", '{"data": {"value": "2"}}')
    until(lambda: seen("other") == "2")
    live.kubectl("delete", "configmap", "other")
    until(lambda: seen("other") is None)
    # Of its own, without any wait:
    for number in range(20):
        name = f"own-{number}"
        watching.create(maps.path("default"), config_map(name, "1"))
        assert seen(name) == "1"
        watching.merge(maps.path("default", name), {"data": {"value": "2"}})
        assert seen(name) == "2"
        watching.apply(config_map(name, "3"), maps.path("default", name))
        assert seen(name) == "3"
        watching.delete(maps.path("default", name))
        assert seen(name) is None
    assert lists_of_config_maps(live) == asked
    # A reader may change what it got.
    got = watching.list(maps.path("default"))
    got[0]["data"] = {"value": "mine"}
    assert watching.list(maps.path("default"))[0] != got[0]


def test_a_selection_follows_the_labels(watching: WatchingApi) -> None:
    chosen = {"labelSelector": "chosen=yes"}
    path = NODES.path(name=h100(1).name)

    def names() -> list[str]:
        return [item["metadata"]["name"] for item in watching.list(NODES.path(), **chosen)]

    assert names() == []
    for value, expected in (("yes", [h100(1).name]), ("no", []), ("yes", [h100(1).name]), (None, [])):
        watching.merge(path, {"metadata": {"labels": {"chosen": value}}})
        assert names() == expected


def test_after_a_kill_of_the_api_server_it_is_asked_again(live: Live, watching: WatchingApi) -> None:
    assert [item["metadata"]["name"] for item in watching.list(NODES.path())] == node_names(live)
    kill(live.processes()["kube-apiserver"])

    def fails() -> bool:
        try:
            watching.list(NODES.path())
        except ControlPlaneError:
            return True
        return False

    until(fails)
    fresh(live).create(CLUSTER)
    until(lambda: not fails())
    live.kubectl("label", "node", h100(1).name, "after=kill")
    until(lambda: [item["metadata"]["labels"].get("after") for item in watching.list(NODES.path())] == ["kill"])
