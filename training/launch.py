"""`python -m training.launch`: torchrun on one node of a job, started there by srun; its arguments are the trainer's.

It is torchrun's own launcher in this process, with what it needs from Slurm's environment.
"""

# PyTorch is no package of this project's own environment, so its types are unknown to the checker.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from datetime import timedelta

from training import codes, nccl, options
from training.records import Records
from training.rendezvous import Meeting, NotInSlurmError, meeting, processes

SETTINGS = {
    # torchrun sends SIGKILL 30 s after SIGTERM unless it is told otherwise; Slurm's own SIGKILL comes after KillWait.
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "80",
    # Else the ranks of a restart within the job read the addresses of the round before.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    # A collective that failed ends the process (PyTorch's default, and it must not be switched off).
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
    "OMP_NUM_THREADS": "1",
}
"""Variables of every rank, unless the user has set them."""

JOIN_SECONDS = 300
"""How long a node waits for the others to start: a pod of a replaced node may still be on its way."""

_PLAIN = "c10d-without-libuv"


def main(arguments: list[str]) -> int:
    """Run this node's ranks; return the exit status."""
    chosen = options.read(arguments, os.environ)
    try:
        place = meeting(os.environ)
    except NotInSlurmError as error:
        print(error, file=sys.stderr)
        return codes.REFUSED
    records = Records(chosen.run, os.environ, writer=f"launch-{place.address}")
    settled = settings(os.environ)
    os.environ.update(settled)
    records.event("launched", meeting=place.id, host=place.host, port=place.port, settings=settled)
    return _torchrun(command(place, processes(os.environ), _backend(), arguments), records)


def settings(environ: MutableMapping[str, str]) -> dict[str, str]:
    """The variables to set: this module's and NCCL's for the VM type, where the user has set none."""
    advised = nccl.advice(environ)
    print(advised.sentence, file=sys.stderr)
    wanted = SETTINGS | {name: setting.value for name, setting in advised.settings.items()}
    return {name: value for name, value in wanted.items() if not environ.get(name)}


def command(place: Meeting, ranks: int, backend: str, arguments: list[str]) -> list[str]:
    """torchrun's arguments."""
    conf = {"is_host": int(place.is_host), "join_timeout": JOIN_SECONDS, "read_timeout": JOIN_SECONDS}
    return [
        f"--nnodes={place.nodes}",
        f"--nproc-per-node={ranks}",
        # A crash ends the job's attempt: Slurm starts it anew, perhaps on other nodes.
        "--max-restarts=0",
        f"--rdzv-backend={backend}",
        f"--rdzv-endpoint={place.host}:{place.port}",
        f"--rdzv-id={place.id}",
        f"--rdzv-conf={','.join(f'{key}={value}' for key, value in conf.items())}",
        f"--local-addr={place.address}",
        "--module",
        "training.train",
        *arguments,
    ]


def _torchrun(command: list[str], records: Records) -> int:
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    try:
        run.main(command)
    except ChildFailedError as error:
        failures = [
            {"rank": rank, "code": failure.exitcode, "time": failure.timestamp}
            for rank, failure in error.failures.items()
        ]
        records.event("ranks-failed", failures=failures)
        return 1
    return codes.DONE


def _backend() -> str:
    """torchrun's c10d, or the same over a store without libuv where PyTorch was built without it, as Debian's is."""
    from torch.distributed import DistStoreError, TCPStore

    try:
        TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
    except DistStoreError:
        os.environ["USE_LIBUV"] = "0"
        _register_plain()
        return _PLAIN
    return "c10d"


def _register_plain() -> None:
    from torch.distributed import TCPStore
    from torch.distributed.elastic.rendezvous import (
        RendezvousHandler,
        RendezvousParameters,
        rendezvous_handler_registry,
    )
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

    class Plain(C10dRendezvousBackend):
        name = _PLAIN

    def handler(parameters: RendezvousParameters) -> RendezvousHandler:
        host, _, port = parameters.endpoint.rpartition(":")
        store = TCPStore(
            host,
            int(port),
            is_master=parameters.get_as_bool("is_host"),
            multi_tenant=True,
            timeout=timedelta(seconds=JOIN_SECONDS),
            use_libuv=False,
        )
        return create_handler(store, Plain(store, parameters.run_id), parameters)

    rendezvous_handler_registry.register(_PLAIN, handler)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
