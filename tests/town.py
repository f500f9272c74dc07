"""A made-up local cloud for tests of the console: API and pages are real and served, what is seen of nodes is told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import uvicorn

from localcloud import pools
from localcloud.app import Application
from localcloud.autoclusters import incidents
from localcloud.autoclusters.incidents import Incident, Phase
from localcloud.autoclusters.notices import Kind
from localcloud.console.sights import ClusterSight, JobSight, News, NodeSight, PodSight, SlurmNodeSight
from localcloud.control_plane import NoControlPlane
from localcloud.server import EndingServer, listen
from tests.unit.localcloud.conftest import IB_EAST, Api, make_cloud

T = TypeVar("T")
H100, L40S, CPU = "h100-80gb-sxm-ib.8x", "l40s-48gb.10x", "c1a.8x"
STARTED = 30.0


class Town:
    """The cloud as a test uses it; everything is done on the server's own event loop."""

    def __init__(self, api: Api, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.cloud = api.cloud
        self.api = api
        self.port = port
        self.cluster_id = ""
        self._loop = loop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/console/"

    def wait(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(step(), self._loop).result(60)

    def do(self, step: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return step()

        return self.wait(on_loop)

    def settle(self, name: str = "prod", counts: Mapping[str, tuple[str, int]] | None = None) -> list[str]:
        """A cluster with pools, each of a type and so many nodes; answers the nodes' names, in order."""
        wanted = counts or {"train": (H100, 8), "serve": (L40S, 4), "system": (CPU, 2)}

        async def build() -> None:
            for vm_type in {vm_type for vm_type, _ in wanted.values()}:
                facts = self.cloud.facts.vm_types[vm_type]
                self.cloud.inventory.set_free_vms(facts, "us-east1-a", 5000)
                await self.api.admin("PUT", "quotas", {"name": facts.family, "max": 1_000_000})
                if facts.fabric == "infiniband":
                    network = self.cloud.facts.ib_networks[IB_EAST]
                    self.cloud.inventory.set_ib_free_vms(network, facts, 5000)
            self.cluster_id = await self.api.cluster(name)
            for pool, (vm_type, count) in wanted.items():
                fabric = {"ib_partition_id": await self.api.partition(f"ib-{pool}")} if vm_type == H100 else {}
                await self.api.pool(self.cluster_id, pool, count, product_name=vm_type, **fabric)

        self.wait(build)
        names = self.do(lambda: [vm.name for vm in self.cloud.store.all(pools.VM)])
        self.see(lambda seen: replace(seen, at=time.time(), nodes={each: NodeSight(each) for each in names}))
        return names

    def see(self, change: Callable[[ClusterSight], ClusterSight], news: Sequence[News] = ()) -> None:
        """Have the cluster be seen differently."""
        self.cloud.sights.update(self.cluster_id, lambda seen: replace(change(seen), at=time.time()), news)

    def node(self, name: str, **changes: Any) -> None:
        """Have a node be seen differently."""
        self.see(lambda seen: replace(seen, nodes={**seen.nodes, name: replace(seen.nodes[name], **changes)}))

    def slurm(self, jobs: Sequence[JobSight] = (), nodes: Sequence[SlurmNodeSight] = ()) -> None:
        """Have Slurm say this."""
        found = {each.name: each for each in nodes}
        self.see(lambda seen: replace(seen, slurm=True, jobs=tuple(jobs), slurm_nodes=found))

    def pods(self, *pods: PodSight) -> None:
        """Have these pods run, beside those that do."""
        self.see(lambda seen: replace(seen, pods=(*seen.pods, *pods)))

    def breaks(self, node: str, xid: int = 79, gpu: int = 3) -> Incident:
        """A GPU of a node is broken from now on."""

        def report() -> Incident:
            vm = next(each for each in self.cloud.store.all(pools.VM) if each.name == node)
            pool = self.cloud.store.get(pools.POOL, vm.parent_id or "")
            assert pool is not None
            return incidents.report(self.cloud, vm, pool, xid, gpu)

        return self.do(report)

    def advances(self, incident: Incident, phase: Phase, tell: Kind | None = None) -> Incident:
        """A repair is one phase further."""
        return self.do(lambda: incidents.advance(self.cloud, incident, phase, tell))

    def backdate(self, incident: Incident, *seconds: float) -> Incident:
        """Have the phases of an incident have begun so long ago."""
        now = time.time()
        history = tuple((phase, now - ago) for (phase, _), ago in zip(incident.history, seconds, strict=True))
        older = replace(incident, history=history, since=history[-1][1])

        def save() -> Incident:
            item = self.cloud.store.get(incidents.INCIDENT, incident.id)
            assert item is not None
            item.body |= {"history": history, "since": older.since}
            self.cloud.store.save(item)
            return older

        return self.do(save)


@contextmanager
def town(folder: Path, port: int = 0) -> Generator[Town]:
    """A served cloud that ends with the test; its state is in memory, its keys in the folder."""
    listener = listen(port)
    made: list[Town] = []
    ready = threading.Event()
    stop = threading.Event()

    async def serve() -> None:
        plane = NoControlPlane()
        application = Application(make_cloud(folder, 0.0, plane, kept=False))
        config = uvicorn.Config(application, lifespan="on", log_config=None, timeout_graceful_shutdown=1)
        server = EndingServer(config, application.cloud)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://local")
        while not server.started:
            await asyncio.sleep(0.01)
        port = int(listener.getsockname()[1])
        made.append(Town(Api(application, client, plane), asyncio.get_running_loop(), port))
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.05)
        await client.aclose()
        server.should_exit = True
        await serving
        application.cloud.store.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="town", daemon=True)
    thread.start()
    assert ready.wait(STARTED), "the town is not served"
    try:
        yield made[0]
    finally:
        stop.set()
        thread.join(STARTED)
        listener.close()


def inhabited(town: Town) -> list[str]:
    """A town with everything that a page can show; answers its nodes."""
    names = town.settle()
    train, serve = names[:8], names[8:12]
    town.pods(
        *(
            PodSight("slurm", f"train-{number}", node, 8, worker=f"train-{number}", part="floor")
            for number, node in enumerate(train[:6])
        ),
        PodSight("slurm", "serve-borrow-0", serve[2], 10, worker="serve-borrow-0", part="borrow"),
        PodSight("chat", "chat-floor-0", serve[0], 4, part="floor", share="chat"),
        PodSight("chat", "chat-burst-0", serve[0], 2, part="burst", share="chat"),
        PodSight("chat", "chat-floor-1", serve[1], 4, part="floor", share="chat"),
        PodSight("notebooks", "lab", serve[3], 1),
    )
    now = time.time()
    town.slurm(
        [
            JobSight("41", "pretrain", "ada", "RUNNING", "train", "", ("train-0", "train-1"), 16, 1, now - 95),
            JobSight("44", "sweep", "grace", "RUNNING", "train", "", ("train-4",), 8, 0, now - 4000),
            JobSight("45", "tune", "ada", "PENDING", "train", "Resources", (), 32),
            JobSight("40", "smoke", "linus", "COMPLETED", "train", "", ("train-3",), 8, 0, now - 900),
        ],
        [
            *(SlurmNodeSight(f"train-{number}", frozenset({"ALLOCATED"})) for number in range(5)),
            SlurmNodeSight("train-5", frozenset({"IDLE", "DRAIN"}), "health: NVLink errors"),
        ],
    )
    return names
