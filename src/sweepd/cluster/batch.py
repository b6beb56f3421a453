"""Queues to which each sweep is handed as a job, through the queue's own command line."""

from __future__ import annotations

import re
import secrets
import subprocess
from abc import abstractmethod
from typing import ClassVar

from sweepd.cluster.base import Note, Remote, Work
from sweepd.errors import EnvironmentFailure


class Batch(Remote):
    """A queue where each sweep is a job with nodes of its own. They go back when the job has
    ended."""

    lasting: ClassVar[bool] = False

    def start(self, work: Work, note: Note) -> str:
        if waiting := self.find(work.sweep, work.results):
            note(f"sweep {work.sweep} is in the queue already, as it was then, as job {waiting}")
            return waiting
        return self.submit(work, job_name(work.sweep))

    @abstractmethod
    def submit(self, work: Work, job: str) -> str:
        """Hands a sweep over as a job of this name. Returns the job."""

    @abstractmethod
    def draft(self, work: Work) -> str: ...


def job_name(sweep: str, longest: int = 47) -> str:
    """Returns a name that no other job has, of small letters, digits and hyphens."""
    readable = re.sub("[^a-z0-9]+", "-", sweep.lower())
    return f"sweepd-{readable}"[: longest - 9].rstrip("-") + f"-{secrets.token_hex(4)}"


def tell(*command: str, text: str | None = None) -> str:
    """Runs a command, with a text on its stdin if one is given, and returns what it prints. Raises
    EnvironmentFailure, with what the command says, if it fails or is not there."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise EnvironmentFailure(f"there is no command {command[0]} on this machine") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip()
        raise EnvironmentFailure(f"{' '.join(command[:3])}: {said}") from error
    return done.stdout
