"""Does what was decided, one step after the other, and writes a line for each."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields

from actor import facts
from actor.actions import (
    Action,
    Annotate,
    Cordon,
    Drain,
    Enter,
    Note,
    Rearrange,
    Release,
    Remember,
    Report,
    Requeue,
    Reserve,
    Terminate,
    Undrain,
    Unreserve,
)
from actor.kubernetes import Kubernetes, KubernetesError
from actor.slurm import Slurm, SlurmError
from actor.state import Job

_LOG = logging.getLogger("actor")


class Performer:
    """Performs actions on one cluster."""

    def __init__(self, kubernetes: Kubernetes, slurm: Slurm) -> None:
        """Work with these two APIs."""
        self._kubernetes = kubernetes
        self._slurm = slurm

    def perform(self, lists: Sequence[Sequence[Action]], may_go_on: Callable[[], bool]) -> None:
        """Perform lists of actions; a step that fails ends its list, and no other. Stops when `may_go_on` is False."""
        for actions in lists:
            for action in actions:
                if not may_go_on():
                    return
                try:
                    self._one(action)
                except (KubernetesError, SlurmError) as error:
                    _LOG.warning(line(action, error=str(error)))
                    break
                _LOG.info(line(action))

    def _one(self, action: Action) -> None:
        match action:
            case Cordon(node, reason):
                patch = {"metadata": {"annotations": {facts.CORDON_REASON: reason}}, "spec": {"unschedulable": True}}
                self._kubernetes.patch_node(node, patch)
            case Annotate(node, key, value):
                self._kubernetes.patch_node(node, {"metadata": {"annotations": {key: value}}})
            case Drain(node, reason):
                self._slurm.update_node(node, state=["DRAIN"], reason=reason)
            case Undrain(node):
                self._slurm.update_node(node, state=["UNDRAIN"])
            case Remember(node, extra):
                self._slurm.update_node(node, extra=extra)
            case Reserve():
                self._reserve(action)
            case Rearrange(name, nodes):
                self._slurm.rearrange(name, nodes)
            case Enter(job, name):
                self._slurm.update_job(job, reservation=name)
            case Unreserve(name):
                self._slurm.unreserve(name)
            case Requeue(job):
                self._slurm.requeue(job)
            case Terminate(job):
                self._slurm.terminate(job)
            case Release(job):
                self._slurm.update_job(job, hold=False)
            case Note(job, comment):
                self._slurm.update_job(job, admin_comment=comment)
            case Report(_, reason, text, node, warning):
                if node:
                    self._kubernetes.report(node, reason, text, warning=warning)

    def _reserve(self, action: Reserve) -> None:
        """Keep the nodes, for the job's user if slurmctld knows that name, else for its account.

        A job must not stay on a broken node because its place can't be kept, so a refusal is only told.
        """
        job = action.job
        try:
            if job.reservation != action.name:
                self._made(action)
                self._slurm.update_job(job, reservation=action.name)
        except SlurmError as error:
            _LOG.warning(line(action, error=f"its place is not kept: {error}"))

    def _made(self, action: Reserve) -> None:
        if action.name in self._slurm.reservations():
            return
        try:
            self._slurm.reserve(action.name, action.nodes, users=[action.job.user])
        except SlurmError:
            if not action.job.account:
                raise
            self._slurm.reserve(action.name, action.nodes, accounts=[action.job.account])


def line(action: Action, **more: str) -> str:
    """One line of JSON about an action: what, of which class, and on what."""
    values = {each.name: getattr(action, each.name) for each in fields(action)}
    plain = {key: value.step_id if isinstance(value, Job) else value for key, value in values.items()}
    return json.dumps({"action": type(action).__name__, **plain, **more}, sort_keys=True)
