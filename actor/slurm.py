"""Slurm's REST API, by slurmrestd. Versions of it are tried in order; requeueing needs that of Slurm 26.05 or later."""

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from actor import read, web
from actor.places import MINUTES
from actor.state import Job, Reservation, SlurmNode

VERSIONS = ("v0.0.45", "v0.0.46", "v0.0.47")
"""The first is the one that this is written for and tested with."""

_PENDING, _UNKNOWN_JOB, _ALREADY_OVER = 2024, 2017, 2021
"""Slurm's numbers of errors: the job is pending; there is no such job; it has finished."""


class SlurmError(Exception):
    """slurmrestd did not answer, or refused; the text says what."""


class TokenRefusedError(SlurmError):
    """slurmrestd does not take the token."""

    def __init__(self) -> None:
        super().__init__("slurmrestd does not take the token; look at the Tokens: kubectl get tokens -n slurm")


class Slurm:
    """One Slurm cluster. Every method raises SlurmError."""

    def __init__(self, connect: web.Connect, token: Callable[[], str]) -> None:
        """`token` gives a JWT of Slurm's own user; it is asked at each call, since tokens are renewed."""
        self._connect = connect
        self._token = token
        self._version = ""

    def nodes(self) -> dict[str, SlurmNode]:
        """Every node by name."""
        found = self._call("GET", "nodes/")["nodes"]
        return {each["name"]: read.slurm_node(each) for each in found}

    def jobs(self) -> list[Job]:
        """Every job that Slurm still knows."""
        return [read.job(each) for each in self._call("GET", "jobs/")["jobs"]]

    def reservations(self) -> dict[str, Reservation]:
        """Every reservation by name."""
        found = read.items(self._call("GET", "reservations/"), "reservations")
        return {each["name"]: read.reservation(each) for each in found}

    def update_node(self, name: str, **fields: object) -> None:
        """Change a node: `state`, `reason`, `extra`."""
        self._call("POST", f"node/{quote(name)}", fields)

    def update_job(self, job: Job, **fields: object) -> None:
        """Change a job, of an array this member alone: `reservation`, `hold`, `admin_comment`."""
        self._call("POST", f"job/{job.id}", fields)

    def requeue(self, job: Job) -> None:
        """End a job and put it back into the queue; fine if it is there already, or gone."""
        self._call("GET", f"job/{quote(job.step_id)}/requeue", fine=(_PENDING, _UNKNOWN_JOB, _ALREADY_OVER))

    def terminate(self, job: Job) -> None:
        """Send SIGTERM to all processes of a job; fine if it is gone."""
        path = f"job/{quote(job.step_id)}?signal=TERM&flags=FULL_JOB"
        self._call("DELETE", path, fine=(_UNKNOWN_JOB, _ALREADY_OVER))

    def reserve(self, name: str, nodes: Sequence[str], **whose: Sequence[str]) -> None:
        """Keep nodes for `users` or `accounts`; what runs there goes on."""
        body = {
            "name": name,
            "node_list": list(nodes),
            "flags": ["IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END"],
            "start_time": {"set": True, "number": int(time.time())},
            "duration": {"set": True, "number": MINUTES},
            **whose,
        }
        self._call("POST", "reservation", body)

    def rearrange(self, name: str, nodes: Sequence[str]) -> None:
        """Give a reservation other nodes."""
        self._call("POST", "reservation", {"name": name, "node_list": list(nodes)})

    def unreserve(self, name: str) -> None:
        """End a reservation."""
        self._call("DELETE", f"reservation/{quote(name)}")

    def _call(self, method: str, path: str, body: object = None, *, fine: Sequence[int] = ()) -> dict[str, Any]:
        self._version = self._version or self._found_version()
        answer = self._ask(method, f"/slurm/{self._version}/{path}", body)
        errors = [each for each in read.items(answer.body, "errors") if each.get("error_number")]
        if answer.ok and not errors:
            return answer.body
        if errors and all(each["error_number"] in fine for each in errors):
            return answer.body
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise TokenRefusedError
        if answer.status == HTTPStatus.NOT_FOUND and not errors:
            # An upgrade has taken this version away.
            self._version = ""
        said = "; ".join(f"{each.get('description', '')}: {each.get('error', '')}" for each in errors)
        raise SlurmError(f"slurmrestd refused {method} {path}: {said or answer.text.strip()[:200] or answer.status}")

    def _found_version(self) -> str:
        for version in VERSIONS:
            answer = self._ask("GET", f"/slurm/{version}/ping/", None)
            if answer.status == HTTPStatus.UNAUTHORIZED:
                raise TokenRefusedError
            if answer.status != HTTPStatus.NOT_FOUND:
                return version
        raise SlurmError(f"slurmrestd speaks none of {', '.join(VERSIONS)}; Slurm has to be 26.05 or later.")

    def _ask(self, method: str, path: str, body: object) -> web.Answer:
        headers = {"X-SLURM-USER-TOKEN": self._token(), "Content-Type": "application/json"}
        try:
            return web.call(self._connect, method, path, body, headers)
        except web.WebError as error:
            raise SlurmError(f"slurmrestd does not answer: {error}") from error
