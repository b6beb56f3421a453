"""What a launch shows to others while it runs, and what it takes from where it happens to stand."""

from __future__ import annotations

import ipaddress
import signal
from collections.abc import Iterable, Iterator
from subprocess import Popen

import psutil
from e2e.conftest import Running
from shell import ONE_AT_A_TIME, SharedShell
from waiting import wait_until

GRID = f"""
name: closed
task: {{name: mine.py:Slow, n: 2, value_range: 64}}
model: {{name: standard, d: 4, layers: 1, heads: 1}}
train: {{steps: 1000, batch_size: 4}}
evaluate: {{check_samples: 8, verdict_samples: 8}}
resources: {ONE_AT_A_TIME}
seeds: [0, 1]
"""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
LIBRARIES = ("pyarrow", "pydantic", "numba", "torch", "duckdb", "yaml", "tasks", "models")


def processes_of(driver: Popen[str]) -> list[psutil.Process]:
    return [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]


def listening_on(processes: Iterable[psutil.Process]) -> Iterator[Address]:
    """The addresses at which these processes can be reached."""
    for process in processes:
        for connection in process.net_connections("inet"):
            if connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE) and connection.laddr:
                address = ipaddress.ip_address(connection.laddr.ip)
                yield getattr(address, "ipv4_mapped", None) or address


def test_nothing_but_the_user_gets_in(mine: SharedShell, running: Running) -> None:
    """A launch from a folder full of traps, by a user whose home is empty."""
    for folder in ("grids", "home"):
        (mine.folder / folder).mkdir()
    (mine.folder / "mine.py").rename(mine.folder / "grids/mine.py")
    mine.write("grids/grid.yaml", GRID)
    for name in LIBRARIES:
        mine.write(f"{name}.py", f"open({str(mine.folder / 'sprung')!r}, 'w')")
    mine.environment["HOME"] = str(mine.folder / "home")
    process = running(mine.start("launch", "grids/grid.yaml", "--yes"))
    results = mine.folder / "sweepd-results"
    wait_until(lambda: any(results.glob("logs/*")), process=process)

    everyone = processes_of(process)
    addresses = set(listening_on(everyone))
    assert addresses and all(address.is_loopback for address in addresses), addresses
    [token] = {p.environ().get("RAY_AUTH_TOKEN") for p in everyone if p.name() == "raylet"}
    assert token and len(token) >= 32
    commands = "".join(word for p in everyone for word in p.cmdline())

    spared = ("dashboard.py", "log_monitor.py", "monitor.py")  # ray_private.starting_little
    assert "raylet" in commands and not any(name in commands for name in spared)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert token not in commands + out + err
    for path in results.rglob("*"):
        assert path.is_dir() or token.encode() not in path.read_bytes()
    assert not (mine.folder / "sprung").exists()
    assert not list((mine.folder / "home").iterdir())
