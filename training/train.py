"""`python -m training.train`: one rank of the training, started by torchrun.

Each step's collective carries the loss and two flags: whether a rank was told to end, and whether it has written its
part of an asynchronous save. So all ranks leave, and publish, after the same step.
"""

# PyTorch is no package of this project's own environment, so its types are unknown to the checker.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from training import codes, data, options, schedule
from training.records import Records
from training.signals import Termination

if TYPE_CHECKING:
    from torch import nn


def main(arguments: list[str]) -> NoReturn:
    """Train to the end, or until told to end."""
    chosen = options.read(arguments, os.environ)
    termination = Termination(chosen.step_timeout, codes.STUCK)
    # Before PyTorch is loaded: a signal during start-up must not kill a rank half-way.
    termination.watch()
    rank = int(os.environ["RANK"])
    records = Records(chosen.run, os.environ, rank=rank, writer=f"rank{rank}" if rank else None)
    termination.noticed = lambda: records.event("signal", signal="SIGTERM")
    termination.stuck = lambda: records.event(
        "leaving", code=codes.STUCK, why=f"the step took more than {chosen.step_timeout} s from SIGTERM on"
    )
    records.event("started", pid=os.getpid(), ranks=int(os.environ["WORLD_SIZE"]), strategy=chosen.strategy)
    try:
        _Run(chosen, records, termination).go()
    except BaseException as error:
        records.event("crashed", error=f"{type(error).__name__}: {error}"[:300])
        raise


class _Run:
    """One attempt of a rank."""

    def __init__(self, chosen: options.Options, records: Records, termination: Termination) -> None:
        import torch
        import torch.distributed as dist

        from training.model import Model, Sequences
        from training.saving import Checkpointer

        self._dist, self._torch = dist, torch
        self._options, self._records, self._termination = chosen, records, termination
        drill = chosen.profile == "drill"
        if drill:
            torch.set_num_threads(1)
            torch.use_deterministic_algorithms(mode=True)
        local = int(os.environ.get("LOCAL_RANK", "0"))
        gpu = torch.cuda.is_available() and not drill
        self._device = torch.device("cuda", local) if gpu else torch.device("cpu")
        if gpu:
            torch.cuda.set_device(self._device)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=timedelta(seconds=chosen.group_timeout)
        )
        self._rank, self._ranks = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(data.seed_of(chosen.seed, "weights"))
        self._model = _spread(Model(chosen.width, chosen.layers, chosen.dropout).to(self._device), chosen)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=chosen.learning_rate)
        self._sequences = Sequences(chosen.seed)
        self._checkpointer = Checkpointer(chosen, records, self._model, self._optimizer)

    def go(self) -> NoReturn:
        """Load, train, save, leave."""
        from training.saving import RefusedError

        try:
            done = self._checkpointer.load()
        except RefusedError as error:
            if self._rank == 0:
                print(error, file=sys.stderr)
            self._leave(codes.REFUSED, str(error), 0)
        if done >= self._options.steps:
            self._leave(codes.DONE, "there was nothing left to do", done)
        # Before anything is at stake: a storage that refuses, or is slow, shows at once.
        if done == 0 and not self._save(0, "start", wait=True):
            self._leave(1, "the first save failed", 0)
        for step in range(done, self._options.steps):
            begun = time.monotonic()
            told, ready = self._step(step)
            if told:
                self._termination.answered()
                saved = self._save(step + 1, "SIGTERM", wait=True)
                self._leave(codes.STOPPED, "saved" if saved else "the save failed", step + 1)
            if ready:
                with self._termination.saving():
                    self._checkpointer.finish()
            if (step + 1) % self._options.interval == 0 and step + 1 < self._options.steps:
                self._save(step + 1, "interval", wait=self._options.save == "sync")
            time.sleep(max(0.0, self._options.step_seconds - (time.monotonic() - begun)))
        self._termination.answered()
        if not self._save(self._options.steps, "end", wait=True):
            self._leave(1, "the last save failed", self._options.steps)
        self._leave(codes.DONE, "done", self._options.steps)

    def _save(self, step: int, why: str, *, wait: bool) -> bool:
        with self._termination.saving():
            return self._checkpointer.save(step, why, wait=wait)

    def _step(self, step: int) -> tuple[bool, bool]:
        """One step; whether anybody was told to end, and whether all are ready to publish."""
        torch, chosen = self._torch, self._options
        torch.manual_seed(data.seed_of(chosen.seed, "dropout", step, self._rank))
        numbers = data.share(data.batch(chosen.seed, step, chosen.batch, chosen.samples), self._rank, self._ranks)
        inputs, wanted = (tensor.to(self._device) for tensor in self._sequences.batch(numbers))
        rate = schedule.learning_rate(step, peak=chosen.learning_rate, warmup=chosen.warmup, steps=chosen.steps)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        logits = self._model(inputs)
        # A part of the global batch's mean: shares may differ by one sample.
        part = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum") / (
            chosen.batch * wanted.shape[1]
        )
        self._optimizer.zero_grad()
        # Gradients are averaged over the ranks, and these are to be added up.
        (part * self._ranks).backward()
        self._optimizer.step()
        flags = [float(self._termination.asked), float(self._checkpointer.ready)]
        told = torch.tensor([float(part.detach()), *flags], dtype=torch.float64)
        self._dist.all_reduce(told)
        if self._rank == 0:
            self._records.step(step + 1, float(told[0]))
        return bool(told[1] > 0), bool(told[2] == self._ranks)

    def _leave(self, code: int, why: str, step: int) -> NoReturn:
        """All together, and without Python's own end, in which a late SIGTERM would make a good end a bad one."""
        self._records.event("leaving", code=code, why=why, step=step)
        self._dist.barrier()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _spread(model: nn.Module, chosen: options.Options) -> nn.Module:
    """Spread the model over all ranks.

    DDP sorts its buckets of gradients anew after the first step, so after a resume one step would add up in another
    order (measured: losses differ by up to 2.4e-7); with `find_unused_parameters` it doesn't. FSDP2 has no such order.
    """
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    if chosen.strategy == "ddp":
        return DistributedDataParallel(model, find_unused_parameters=chosen.profile == "drill")
    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


if __name__ == "__main__":
    main(sys.argv[1:])
