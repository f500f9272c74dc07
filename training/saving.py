"""Saves and loads checkpoints with torch.distributed.checkpoint; all ranks call the same methods in the same step.

Saves have a gloo group of their own: an asynchronous one runs beside the training's collectives, and another group
keeps the two apart. What one rank meets is agreed on by all, so that none goes on alone.
"""

# PyTorch is no package of this project's own environment, so its types are unknown to the checker.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import shutil
import time
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from training import checkpoints
from training.checkpoints import File, Manifest, TornError
from training.options import Options
from training.records import Records

# CheckpointException is no Exception: with `except Exception` alone a torn checkpoint would end the job.
_TROUBLES = (Exception, CheckpointException)
_TOLERANCE = 1e-6


class RefusedError(Exception):
    """What is in the run folder doesn't fit the options, or can't be loaded; `str()` says what to do."""


@dataclass
class _Pending:
    """A save whose files are being written."""

    step: int
    why: str
    draft: Path
    begun: float
    future: Future[Any]
    optimizer: str


class Checkpointer:
    """The checkpoints of one run."""

    def __init__(
        self,
        options: Options,
        records: Records,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._options = options
        self._records = records
        self._model = model
        self._optimizer = optimizer
        self._rank, self._ranks = dist.get_rank(), dist.get_world_size()
        self._folder = options.run / "checkpoints"
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=options.save_timeout))
        self._pending: _Pending | None = None
        self._saved = -1
        self._checksum_kept = ""
        _prime(optimizer)

    # Save -------------------------------------------------------------------------------------------------------------

    def save(self, step: int, why: str, *, wait: bool) -> bool:
        """Save the state after `step` steps; False where that failed. With `wait` it is published on return."""
        self.finish()
        if step == self._saved:
            return True
        pending = self._begin(step, why)
        if wait:
            return self._end(pending)
        self._pending = pending
        return True

    @property
    def ready(self) -> bool:
        """Whether this rank has written its part of a save that isn't published yet."""
        pending = self._pending
        return (
            pending is not None
            and pending.future.done()
            and time.monotonic() - pending.begun >= self._options.save_seconds
        )

    def finish(self) -> bool:
        """Publish the save under way as soon as its files are there; True where there is none."""
        pending, self._pending = self._pending, None
        return True if pending is None else self._end(pending)

    def _begin(self, step: int, why: str) -> _Pending:
        draft = checkpoints.draft_of(self._folder, step, self._records.attempt, self._records.round)
        asynchronous = self._options.save == "async"
        if self._rank == 0:
            self._records.event("save-begun", step=step, why=why, mode=self._options.save)
            shutil.rmtree(draft, ignore_errors=True)
        begun = time.monotonic()
        checksum = self._checksum()
        # sync_files: each file is on the disk, and not only in memory, when the write returns.
        writer = dcp.FileSystemWriter(draft, sync_files=True)
        future: Future[Any]
        try:
            if asynchronous:
                future = dcp.async_save(self._state(), storage_writer=writer, process_group=self._group)
            else:
                future = Future()
                future.set_result(dcp.save(self._state(), storage_writer=writer, process_group=self._group))
        except _TROUBLES as error:
            future = Future()
            future.set_exception(error)
        return _Pending(step, why, draft, begun, future, checksum)

    def _end(self, pending: _Pending) -> bool:
        trouble = ""
        own: dict[str, File] = {}
        try:
            pending.future.result(self._options.save_timeout)
            # A large checkpoint's time, before anybody can see it.
            time.sleep(max(0.0, self._options.save_seconds - (time.monotonic() - pending.begun)))
            own = {path.name: checkpoints.digest(path) for path in pending.draft.iterdir() if self._wrote(path)}
        except _TROUBLES as error:
            trouble = f"rank {self._rank}: {type(error).__name__}: {error}"[:300]
        parts: list[Any] | None = [None] * self._ranks if self._rank == 0 else None
        dist.gather_object((own, trouble), parts, dst=0, group=self._group)
        if parts is not None:
            troubles = [said for _, said in parts if said]
            trouble = troubles[0] if troubles else self._publish(pending, parts)
        said = [trouble]
        dist.broadcast_object_list(said, src=0, group=self._group)
        seconds = round(time.monotonic() - pending.begun, 3)
        if said[0]:
            self._records.event("save-failed", step=pending.step, why=pending.why, trouble=said[0])
            return False
        self._saved = pending.step
        if self._rank == 0:
            self._records.event("save-published", step=pending.step, why=pending.why, seconds=seconds)
            checkpoints.prune(self._folder, self._options.keep)
        return True

    def _wrote(self, path: Path) -> bool:
        """Whether it was this rank that wrote a file (`__<rank>_<number>.distcp`; the first one wrote `.metadata`)."""
        return path.name.startswith(f"__{self._rank}_") or (self._rank == 0 and path.name == ".metadata")

    def _publish(self, pending: _Pending, parts: list[tuple[dict[str, File], str]]) -> str:
        files = {name: file for own, _ in parts for name, file in own.items()}
        options = self._options
        manifest = Manifest(pending.step, self._ranks, options.strategy, options.data, pending.optimizer, files)
        try:
            checkpoints.publish(pending.draft, manifest)
        except (OSError, TornError) as error:
            return f"it could not be published: {error}"
        return ""

    # Load -------------------------------------------------------------------------------------------------------------

    def load(self) -> int:
        """Load the newest whole checkpoint; returns how many steps it has done, 0 where there is none.

        Raises:
            RefusedError: it is of another training, or no checkpoint that seemed whole could be loaded.
        """
        failed = False
        for name, manifest in self._candidates():
            trouble = self._agreed(self._differences(self._folder / name, manifest))
            if not trouble:
                # From here on the live state is overwritten.
                trouble = self._agreed(self._loaded(self._folder / name, manifest))
                failed = failed or bool(trouble)
            if not trouble:
                self._saved = manifest.step
                self._tell(name, manifest)
                return manifest.step
            if self._rank == 0:
                self._records.event("checkpoint-skipped", checkpoint=name, why=trouble)
        if failed:
            raise RefusedError(
                f"no checkpoint in {self._folder} could be loaded, though their files are whole (events.jsonl says "
                "why); move them away to begin anew"
            )
        if self._rank == 0:
            self._records.event("fresh")
        return 0

    def _candidates(self) -> list[tuple[str, Manifest]]:
        """Whole checkpoints by their sizes, newest first: one rank looks, all follow."""
        found: list[Any] = [[], ""]
        if self._rank == 0:
            checkpoints.clear(self._folder)
            for path in checkpoints.published(self._folder):
                try:
                    manifest = checkpoints.manifest_of(path)
                except TornError as error:
                    self._records.event("checkpoint-skipped", checkpoint=path.name, why=str(error))
                    continue
                if manifest.data != self._options.data:
                    found[1] = self._other_training(path.name, manifest)
                    break
                found[0].append((path.name, manifest))
        dist.broadcast_object_list(found, src=0, group=self._group)
        if found[1]:
            raise RefusedError(found[1])
        return found[0]

    def _other_training(self, name: str, manifest: Manifest) -> str:
        wanted = self._options.data
        differing = [f"--{key} {manifest.data.get(key)}" for key in wanted if manifest.data.get(key) != wanted[key]]
        return (
            f"{self._folder / name} is of a training with {' '.join(differing)}; give those options, or another --run"
        )

    def _differences(self, path: Path, manifest: Manifest) -> str:
        """What is wrong with this rank's share of a checkpoint's files."""
        names = sorted(manifest.files)[self._rank :: self._ranks]
        try:
            checkpoints.check(path, {name: manifest.files[name] for name in names})
        except TornError as error:
            return str(error)
        return ""

    def _loaded(self, path: Path, manifest: Manifest) -> str:
        state = self._state()
        try:
            dcp.load(state, checkpoint_id=path, process_group=self._group)
            set_state_dict(
                self._model,
                self._optimizer,
                model_state_dict=state["model"],
                optim_state_dict=state["optimizer"],
            )
        except _TROUBLES as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
        saved, found = float.fromhex(manifest.optimizer), float.fromhex(self._checksum())
        if abs(saved - found) > _TOLERANCE * max(abs(saved), 1e-30):
            return f"the optimizer's moments add up to {found:.6g}, and {saved:.6g} were saved"
        return ""

    def _agreed(self, trouble: str) -> str:
        """The first trouble that a rank has, the same on all."""
        said: list[Any] = [None] * self._ranks
        dist.all_gather_object(said, trouble, group=self._group)
        return next((each for each in said if each), "")

    def _tell(self, name: str, manifest: Manifest) -> None:
        if self._rank != 0:
            return
        differing = [
            *([f"{manifest.ranks} ranks then and {self._ranks} now"] if manifest.ranks != self._ranks else []),
            *(
                [f"{manifest.strategy} then and {self._options.strategy} now"]
                if manifest.strategy != self._options.strategy
                else []
            ),
            *(["profile cluster"] if self._options.profile == "cluster" else []),
        ]
        self._records.event(
            "resumed",
            step=manifest.step,
            checkpoint=name,
            bitwise=not differing,
            because=", ".join(differing),
            optimizer=self._checksum_kept,
        )

    # State ------------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer)
        return {"model": model, "optimizer": optimizer}

    def _checksum(self) -> str:
        """The sum of all moments' absolute values as a hex float, the same on all ranks."""
        spread = self._options.strategy == "fsdp2"
        total = torch.zeros((), dtype=torch.float64)
        for state in self._optimizer.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                local = state[name].to_local() if spread else state[name]
                total += local.detach().abs().sum(dtype=torch.float64).cpu()
        if spread:
            dist.all_reduce(total, group=self._group)
        self._checksum_kept = float(total).hex()
        return self._checksum_kept


def _prime(optimizer: torch.optim.Optimizer) -> None:
    """Give AdamW's state its first values, as its first step would.

    `get_state_dict` would make a missing one by a step with zero gradients, which AdamW counts: the first real step
    would then be corrected as the second.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter] = {
                "step": torch.tensor(0.0),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
