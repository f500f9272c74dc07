"""The plan as text, for a terminal or a pull request: a pure function from the plan to lines."""

from collections.abc import Iterator, Sequence

from components.gpu_sharing.plan import SharedPool, SharingPlan, notes

HEADINGS = ("who", "guaranteed", "nodes", "GPUs", "at most", "gives way to")


def lines(plan: SharingPlan) -> Iterator[str]:
    """One block for each pool: its sum, a table of who has what, and what is worth knowing."""
    for index, pool in enumerate(plan.pools):
        if index:
            yield ""
        yield _head(pool)
        yield f"  {_sum(pool)}"
        yield ""
        yield from (f"  {line}" for line in _table([HEADINGS, *_rows(pool)]))
        remarks = notes(pool)
        if remarks:
            yield ""
            yield from (f"  * {remark}" for remark in remarks)


def _head(pool: SharedPool) -> str:
    nodes = str(pool.least) if pool.least == pool.most else f"{pool.least} to {pool.most}"
    return (
        f"{pool.key}: {nodes} nodes x {pool.gpus} GPUs ({pool.resource}), engine {pool.engine}"
        + (f", {pool.surplus}" if pool.engine == "priority" else "")
        + (f", NVLink domains of {pool.domain} nodes" if pool.domain > 1 else "")
    )


def _sum(pool: SharedPool) -> str:
    parts = [f"{pool.floor} for training's floor"]
    parts += [f"{share.homes} for {share.name}" for share in pool.shares if share.homes]
    if pool.reserve:
        parts.append(f"{pool.reserve} in reserve")
    lent = "idle" if pool.engine == "static" else "to lend"
    return f"{' + '.join(parts)} + {pool.lent} {lent} = {pool.least} nodes"


def _rows(pool: SharedPool) -> Iterator[tuple[str, ...]]:
    yield (
        "training",
        f"{pool.floor} nodes",
        str(pool.floor),
        str(pool.floor_gpus),
        f"{pool.ceiling} nodes",
        _gives_way(pool, "inference") if pool.borrowed else "nobody",
    )
    for share in pool.shares:
        yield (
            share.name,
            f"{share.floor} x {share.gpus_per_replica} GPUs",
            str(share.homes),
            str(share.floor_gpus),
            f"{share.ceiling} replicas",
            _gives_way(pool, "training") if share.burst else "nobody",
        )


def _gives_way(pool: SharedPool, other: str) -> str:
    """To whom a side gives way with what it borrowed."""
    if pool.engine == "kueue":
        # Inference's floors are never lent, so no worker has to go for one.
        return "nobody" if other == "inference" else "floors"
    first = "training" if pool.surplus == "training-first" else "inference"
    return f"floors, {other}" if other == first else "floors"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
