"""What is new between two looks at a cluster, in a person's words: pure functions.

AutoClusters tells of its own steps; this is what others show of a failure: workers that come and go, nodes that Slurm
drains, jobs that go back to the queue and start again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from localcloud.console.sights import JobSight, News, PodSight, SlurmNodeSight


def of_pods(cluster_id: str, now: float, before: Sequence[PodSight], after: Sequence[PodSight]) -> list[News]:
    """Workers of Slurm that are gone from their machine, and those that are ready on one."""
    old = {each.worker: each for each in before if each.worker}
    new = {each.worker: each for each in after if each.worker}
    found: list[News] = []
    for name, pod in old.items():
        if name not in new or new[name].node != pod.node:
            found.append(News(now, cluster_id, "kubernetes", f"Worker {name} is gone from {pod.node}.", pod.node))
    for name, pod in new.items():
        was = old.get(name)
        if pod.ready and (was is None or not was.ready or was.node != pod.node):
            found.append(News(now, cluster_id, "kubernetes", f"Worker {name} is ready on {pod.node}.", pod.node))
    return found


def of_slurm_nodes(
    cluster_id: str, now: float, before: Mapping[str, SlurmNodeSight], after: Mapping[str, SlurmNodeSight]
) -> list[News]:
    """Nodes that Slurm drains, finds down, or gives jobs to again."""
    texts = [text for name, each in after.items() for text in _node_news(before.get(name), each)]
    return [News(now, cluster_id, "slurm", text) for text in texts]


def _node_news(was: SlurmNodeSight | None, now: SlurmNodeSight) -> Iterator[str]:
    if was is None:
        yield f"{now.name} has joined."
        return
    if now.drained and not was.drained:
        yield f"{now.name} is drained: {now.reason or 'no reason given'}."
    if was.drained and not now.drained:
        yield f"{now.name} gets jobs again."
    if "DOWN" in now.states and "DOWN" not in was.states:
        yield f"{now.name} is down."


def of_jobs(cluster_id: str, now: float, before: Sequence[JobSight], after: Sequence[JobSight]) -> list[News]:
    """Jobs that came, went back to the queue, started, or ended."""
    old = {each.id: each for each in before}
    texts = [text for each in after for text in _job_news(old.get(each.id), each)]
    return [News(now, cluster_id, "slurm", text) for text in texts]


def _job_news(was: JobSight | None, now: JobSight) -> Iterator[str]:
    called = f"Job {now.id} ({now.name})"
    if was is not None and now.restarts > was.restarts:
        yield f"{called} is back in the queue, for the {_nth(now.restarts)} time."
    if was is None and now.waiting:
        yield f"{called} waits."
    if now.running and (was is None or not was.running or now.restarts > was.restarts):
        yield f"{called} runs{' again' if now.restarts else ''} on {', '.join(now.nodes) or 'its nodes'}."
    if was is not None and was.state != now.state and not now.running and not now.waiting:
        yield f"{called} has ended: {now.state.lower()}."


def _nth(count: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(count, f"{count}th")
