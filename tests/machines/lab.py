"""Plays several machines on this one. Each is a network namespace on a bridge, with processes, a
home, a /tmp and an sshd of its own.

    unshare --net --mount python lab.py FOLDER NUMBER [NAME=VALUE …]     (as root)

It prints a line when the machines can be reached. Their addresses are 10.99.0.11 and on. The
program itself is at 10.99.0.1, and `nsenter` reaches the machines from there. When its input ends,
it ends with all of them. FOLDER is /mnt on all machines and holds their SSH key. Commands that SSH
starts there have the variables NAME.

    python lab.py --bare ROOT NUMBER       (among the machines)

adds one with a root folder of its own, until its input ends. It shares nothing with the others.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIRST = 11
SSHD = """
Port 22
HostKey /mnt/key
AuthorizedKeysFile /mnt/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
MaxStartups 100
SetEnv LAB=1 {variables}
"""
# What each has of its own. The repository may lie in /tmp, and Python in root's home: both stay.
OWN = """
set -e
keep=$(mktemp -d /run/keep-XXXX) && mount --bind {root} $keep
mount -t tmpfs tmpfs /tmp && mkdir -p {root} && mount --bind $keep {root}
mount -t tmpfs tmpfs /home && mkdir /home/me && cp /etc/skel/.bashrc /home/me
mount -t tmpfs tmpfs /dev/shm
"""
NETWORK = """
hostname machine-{number}
until ip link show eth9 >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip address add 10.99.0.{number}/24 dev eth9 && ip link set eth9 up
ip route add default via 10.99.0.1
"""
MACHINE = (
    OWN
    + NETWORK
    + """
mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -f /mnt/sshd_config 2>/mnt/sshd-{number}.log
"""
)
BARE = (
    "set -e"
    + NETWORK
    + """
mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev
mount -t tmpfs tmpfs {root}/dev/shm
mkdir -p {root}/run/sshd && exec chroot {root} /usr/sbin/sshd -D -e 2>/mnt/sshd-{number}.log
"""
)


def shell(text: str) -> None:
    subprocess.run(["bash", "-ec", text], check=True)


def main(folder: Path, count: int, variables: list[str]) -> None:
    shell(f"mount --make-rprivate / && mount -t tmpfs tmpfs /run && mount --bind {folder} /mnt")
    shell(OWN.format(root=ROOT))
    shell("sed s,:/root:,:/home/me:, /etc/passwd >/run/passwd")
    shell("mount --bind /run/passwd /etc/passwd")
    Path("/mnt/sshd_config").write_text(SSHD.format(variables=" ".join(variables)))
    shell("[ -e /mnt/key ] || ssh-keygen -q -t ed25519 -N '' -f /mnt/key")
    shell("ip link set lo up; ip link add lan type bridge; ip link set lan up")
    shell("ip address add 10.99.0.1/24 dev lan")
    wait([start(number, MACHINE, ROOT) for number in range(FIRST, FIRST + count)])


def wait(machines: list[subprocess.Popen[bytes]]) -> None:
    print("up", flush=True)  # noqa: T201
    sys.stdin.read()
    for machine in machines:
        machine.kill()


def start(number: int, script: str, root: Path) -> subprocess.Popen[bytes]:
    script = script.format(root=root, number=number)
    own = ["--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
    machine = subprocess.Popen(["unshare", *own, "bash", "-c", script])
    wire = f"to{number}"
    shell(f"ip link add {wire} type veth peer name eth9; ip link set {wire} master lan up")
    while Path(f"/proc/{machine.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        time.sleep(0.05)  # `unshare` has its new namespaces a moment later
    shell(f"ip link set eth9 netns {machine.pid}")
    while True:
        try:
            socket.create_connection((f"10.99.0.{number}", 22), timeout=1).close()
        except OSError:
            assert machine.poll() is None, Path(f"/mnt/sshd-{number}.log").read_text()
            time.sleep(0.1)
        else:
            return machine


if __name__ == "__main__":
    if sys.argv[1] == "--bare":
        wait([start(int(sys.argv[3]), BARE, Path(sys.argv[2]))])
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
