"""Options of the trainer; each can also be an environment variable, `--step-seconds` as TRAINING_STEP_SECONDS."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from training import codes
from training.shape import HEADS

DATA_OPTIONS = ("seed", "samples", "batch", "width", "layers")
"""Those that a run can't change between its attempts: they are part of what the checkpoint is of."""


@dataclass(frozen=True)
class Options:
    """What to train and how.

    Times are in seconds; `step_seconds` and `save_seconds` stretch steps and saves to at least that.
    """

    run: Path
    steps: int
    interval: int
    keep: int
    save: Literal["sync", "async"]
    strategy: Literal["ddp", "fsdp2"]
    profile: Literal["cluster", "drill"]
    seed: int
    samples: int
    batch: int
    width: int
    layers: int
    learning_rate: float
    warmup: int
    dropout: float
    step_timeout: float
    group_timeout: float
    save_timeout: float
    step_seconds: float
    save_seconds: float

    @property
    def data(self) -> dict[str, Any]:
        """What a checkpoint must agree with."""
        return {name: asdict(self)[name] for name in DATA_OPTIONS}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors end the program as refused options do."""

    def error(self, message: str) -> NoReturn:
        self.exit(codes.REFUSED, f"{self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the trainer's options."""
    made = _Parser(prog="python -m training.train", description="Train, and go on after a failure.")
    made.add_argument("--run", type=Path, help="folder of this run, on storage that all nodes share")
    made.add_argument("--steps", type=_positive, default=200, help="optimizer steps in all")
    made.add_argument("--interval", type=_positive, default=20, help="steps from one checkpoint to the next")
    made.add_argument("--keep", type=_positive, default=3, help="whole checkpoints that are kept")
    made.add_argument(
        "--save", choices=("sync", "async"), default="sync", help="async: train on while files are written"
    )
    made.add_argument("--strategy", choices=("ddp", "fsdp2"), default="ddp", help="how the model is spread")
    made.add_argument(
        "--profile",
        choices=("cluster", "drill"),
        default="cluster",
        help="drill: on CPUs with gloo, every sum in a fixed order, so that a resumed run is equal bit for bit",
    )
    made.add_argument("--seed", type=int, default=1234, help="of weights, order and dropout")
    made.add_argument("--samples", type=_positive, default=1000, help="size of the dataset")
    made.add_argument("--batch", type=_positive, default=16, help="samples in a step, of all ranks together")
    made.add_argument("--width", type=_positive, default=64, help="of the model; a multiple of 4")
    made.add_argument("--layers", type=_positive, default=2, help="of the model")
    made.add_argument("--learning-rate", type=float, default=3e-3, help="highest learning rate")
    made.add_argument("--warmup", type=_positive, default=20, help="steps until it is reached")
    made.add_argument("--dropout", type=float, default=0.1, help="part of the activations that is dropped")
    made.add_argument(
        "--step-timeout",
        type=float,
        default=20.0,
        help="how long the step that SIGTERM meets may take; longer, and its rank leaves without a save",
    )
    made.add_argument("--group-timeout", type=float, default=300.0, help="how long ranks wait for each other in a step")
    made.add_argument("--save-timeout", type=float, default=1800.0, help="... and in a save or load")
    made.add_argument("--step-seconds", type=float, default=0.0, help="make each step take at least that")
    made.add_argument("--save-seconds", type=float, default=0.0, help="make each save take at least that")
    return made


def read(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Read arguments, and the environment where they say nothing. Bad ones end the program in one line.

    A member of a job array has a folder of its own in that of the run, named by its task.
    """
    made = parser()
    said = [
        word
        for action in made._actions  # pyright: ignore[reportPrivateUsage] - argparse has no other list of them
        if (value := environ.get(f"TRAINING_{action.dest.upper()}"))
        for word in (action.option_strings[-1], value)
    ]
    values = vars(made.parse_args([*said, *arguments]))
    if values["run"] is None:
        made.error("--run is missing: the folder of this run, on storage that all nodes share")
    if values["width"] % HEADS:
        made.error(f"--width {values['width']} is no multiple of {HEADS}")
    if member := environ.get("SLURM_ARRAY_TASK_ID"):
        values["run"] = values["run"] / member
    return Options(**values)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return value
