"""The commands that the manual shows run, against a small real store, and print the header that
the page shows. What is not run here is listed by name, with the reason."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import inprocess
import pytest
import torch
from object_store import Proxy, Server, ask
from pages import ROOT, Shown, all_commands, blocks

from sweepd.grid.plan import plan
from sweepd.grid.spec import load_grid
from sweepd.run import driver
from sweepd.store.store import Store

NOT_RUN = {
    "make": "its commands run in CI; quickstart trains for minutes, torture and clusters longer",
    "python benchmarks/": "benchmarks take minutes",
    ".venv/bin/python -m pytest": "pytest in pytest",
    "lint-imports": "tests/test_packaging.py runs it",
    "ls ": "no command of ours",
    "sweepd cluster ": "needs a cluster; tests/cluster and tests/machines run them",
    "sweepd resume example --cluster": "needs a cluster; tests/machines runs it",
}
train = runpy.run_path(str(ROOT / "tests" / "stores" / "make.py"))["run"]
TABLES = ("plan", "query", "sql", "status", "gc", "tasks", "models", "compare", "doctor")
"""Commands that print a table whose first line names its columns."""
TINY = [
    "train.steps=10",
    "train.batch_size=4",
    "train.warmup=0",
    "evaluate.verdict_samples=16",
    "evaluate.check_samples=8",
]


@dataclass(frozen=True)
class Place:
    """Where the commands run: a folder with grids, cluster files and a store of ended sweeps."""

    folder: Path
    trial: str
    """the id of one of the store's trials"""
    endpoint: str
    """of an S3 that has my-bucket"""


@pytest.fixture(scope="session")
def docs_place(tmp_path_factory: pytest.TempPathFactory, object_server: Server) -> Iterator[Place]:
    """The quickstart, `small` and docs/grid.md's example, trained for a few steps by the real
    trainer; the example is planned, and has not run, in a bucket."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("grids", "clusters"):
        shutil.copytree(ROOT / name, folder / name)
    [grid] = [
        "\n".join(block.lines)
        for block in blocks(ROOT / "docs" / "grid.md")
        if block.lines[0] == "# grid.yaml"
    ]
    (folder / "grid.yaml").write_text(grid)
    (folder / "small.yaml").write_text(
        "task: {name: lis, n: 4}\nmodel: {name: standard, d: [8, 16], layers: 1, heads: 2}\n"
    )
    store = Store.create(str(folder / "sweepd-results"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run(
        store,
        folder / "grids" / "mini.yaml",
        ["task.n=4", "model.d=8", "seeds=[0]", "settle=off", *TINY],
    )
    run(store, folder / "small.yaml", TINY)
    overrides = ["task.n=[4,8,10]", "model.d=[8,16]", "seeds=[0]", "settle=off", *TINY]
    trial = run(store, folder / "grids" / "quickstart.yaml", overrides)
    torch.set_num_threads(threads)

    proxy = Proxy(object_server.at)
    ask(object_server.at, "PUT", "/my-bucket", {}, b"")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials(proxy.url).items():
            patch.setenv(name, value)
        save(Store.create("s3://my-bucket/sweeps"), folder / "grid.yaml", TINY)
    yield Place(folder, trial, proxy.url)
    proxy.close()


def credentials(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }


def save(store: Store, grid: Path, overrides: list[str]) -> None:
    driver._save(plan(load_grid(grid, overrides)), store)


def run(store: Store, grid: Path, overrides: list[str]) -> str:
    """Train all trials of a grid, as a launch does without Ray; the id of one."""
    planned = plan(load_grid(grid, overrides))
    name = planned.grid.name
    driver._save(planned, store)
    number = store.new_launch({"sweep": name, "host": socket.gethostname(), "pid": os.getpid()})
    for trial in planned.trials:
        train(store, trial, number * 1000, name)
    statuses = store.read_trials().table["status"].to_pylist()
    assert set(statuses) <= {"completed", "solved"}
    return planned.trials[0].id


def is_run(shown: Shown) -> bool:
    return not shown.text.startswith(tuple(NOT_RUN))


@pytest.mark.parametrize("shown", [*filter(is_run, all_commands())], ids=str)
def test_it_runs(shown: Shown, docs_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    program, command, *words = shown.words
    assert program == "sweepd", f"{shown}: run it, or say in NOT_RUN why not"
    if command == "launch" and "--dry-run" not in words:
        words.append("--dry-run")
    if command == "logs":
        words = [docs_place.trial[:8]]
    monkeypatch.chdir(docs_place.folder)
    monkeypatch.delenv("SWEEPD_RESULTS", raising=False)
    for name, value in credentials(docs_place.endpoint).items():
        monkeypatch.setenv(name, value)
    answer = inprocess.sweepd(command, *words)
    assert answer.code == 0, answer.err
    assert answer.out or answer.err
    if shown.output and command in TABLES:
        assert columns(answer.out.splitlines()[0]) == columns(shown.output[0]), shown.place


def columns(header: str) -> list[str]:
    """The names of a table's columns; of an answer of `min`, its title without the seeds."""
    if header.startswith("Least "):
        return [header.partition(" (")[0]]
    return re.split(r"\s{2,}", header.strip())


def test_what_is_not_run_is_shown_somewhere() -> None:
    texts = [shown.text for shown in all_commands()]
    for beginning in NOT_RUN:
        assert any(text.startswith(beginning) for text in texts), f"{beginning}: remove it"
