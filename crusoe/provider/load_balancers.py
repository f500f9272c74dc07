"""Load balancers that a deleted cluster has left behind.

A controller inside the cluster makes them for its Services and is the only one to remove them, so one whose Service was
not deleted before the cluster stays for good, and is paid for. It is known by its name, which Crusoe's public
load balancer controller makes of Service, namespace and the last characters of the cluster's id; the API says of no
load balancer whose it is.
"""

from __future__ import annotations

from typing import Final

from crusoe.client import Cancelled, CrusoeError, NotFound
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.run import Run

COLLECTION: Final = "networking/load-balancers"
CLUSTERS: Final = "kubernetes/clusters"
MARK: Final = 5
"""How many characters of the cluster's id end the name."""


def remove_left(run: Run, cluster_id: str) -> None:
    """Delete what a cluster that is gone has left; what can't be deleted is a warning, since the cluster is gone."""
    ending = f"-{cluster_id[-MARK:]}"
    try:
        left = [row for row in run.client.list(COLLECTION) if (text(row, "name") or "").endswith(ending)]
        living = [text(row, "id") or "" for row in run.client.list(CLUSTERS)] if left else []
    except NotFound:
        return
    except Cancelled:
        raise
    except CrusoeError as error:
        run.warn(f"Whether load balancers are left of the deleted cluster {cluster_id} could not be seen: {error}")
        return
    # Two ids may end alike: what may be another cluster's is never touched.
    if any(one != cluster_id and one.endswith(ending[1:]) for one in living):
        names = ", ".join(text(row, "name") or "" for row in left)
        run.warn(f"The load balancers {names} were kept: they may belong to another cluster whose id ends alike.")
        return
    for row in left:
        _remove(run, row)


def _remove(run: Run, row: JsonObject) -> None:
    object_id, name = text(row, "id") or "", text(row, "name") or ""
    what = f"deleting load balancer {name}, which the cluster left behind"
    run.progress(what)
    try:
        answer = run.client.delete(f"{COLLECTION}/{object_id}")
        if "operation" in answer:
            run.client.wait(answer, COLLECTION, run.left, progress=run.show(what), reread=lambda: None)
    except NotFound:
        return
    except Cancelled:
        raise
    except CrusoeError as error:
        run.warn(f"Load balancer {name} ({object_id}) of the deleted cluster is left; delete it yourself. {error}")
