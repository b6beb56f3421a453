"""Slurm on this machine alone: its controller, one node and munge, in a folder."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch")
CONF = """
ClusterName=torture
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=main Nodes={host} Default=YES State=UP
"""


def missing() -> list[str]:
    """What of Slurm is not installed."""
    return [name for name in COMMANDS if not shutil.which(name, path=_path())]


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which commands of Slurm find it."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(64))
    conf = folder / "slurm.conf"
    conf.write_text(
        CONF.format(
            host=socket.gethostname().partition(".")[0],
            controller=free_port(),
            daemon=free_port(),
            user=getpass.getuser(),
            folder=folder,
            cpus=os.cpu_count(),
        )
    )
    at = {
        "key-file": key,
        **{f"{name}-file": folder / f"munge.{name}" for name in ("pid", "log", "seed")},
        "socket": folder / "munge.socket",
    }
    environment = {"SLURM_CONF": str(conf), "PATH": _path()}
    with ExitStack() as stack:
        for command in (
            ["munged", "--foreground", "--force", *(f"--{k}={v}" for k, v in at.items())],
            ["slurmctld", "-D", "-f", str(conf)],
            ["slurmd", "-D", "-f", str(conf)],
        ):
            log = stack.enter_context((folder / f"{command[0]}.out").open("w"))
            daemon = subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=log, stderr=log
            )
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            time.sleep(1)
        until = time.monotonic() + 60
        while "idle" not in _told("sinfo", environment):
            assert time.monotonic() < until, _told("sinfo", environment)
            time.sleep(0.5)
        yield environment
        subprocess.run(["scancel", "--state=RUNNING"], env={**os.environ, **environment})


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _told(command: str, environment: dict[str, str]) -> str:
    return subprocess.run(
        [command], env={**os.environ, **environment}, capture_output=True, text=True
    ).stdout


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin"
