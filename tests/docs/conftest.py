"""The folder in which the examples of the pages run. It holds grids, cluster files and a small real
store."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster.ready import written
from object_store import Objects, Proxy
from pages import ROOT, blocks
from trained import run, save

from sweepd.store.store import Store

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
    s3: Proxy
    """the way to my-bucket"""


@pytest.fixture(scope="session")
def docs_place(tmp_path_factory: pytest.TempPathFactory, objects: Objects) -> Iterator[Place]:
    """The quickstart, `small` (which is `from_500` too, and is scored at other lengths) and
    docs/grid.md's example, trained for a few steps by the real trainer; the example is planned, and
    has not run, in a bucket."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("grids", "clusters"):
        shutil.copytree(ROOT / name, folder / name)
    for kind in ("aws", "gcp", "kuberay", "onprem", "slurm"):
        written(folder / "clusters", kind)
    shutil.copy(ROOT / "grids" / "quickstart.yaml", folder)
    examples = ROOT / "docs" / "examples"
    named = (examples / name for name in ("claims.yaml", "train.yaml", "wandb.yaml"))
    for example in [*examples.glob("*.py"), *named]:
        shutil.copy(example, folder)
    [grid] = [
        "\n".join(block.lines)
        for block in blocks(ROOT / "docs" / "grid.md")
        if block.lines[0] == "# grid.yaml"
    ]
    (folder / "grid.yaml").write_text(grid)
    (folder / "conf").mkdir()
    (folder / "conf" / "config.yaml").write_text(
        "lr: 0.1\nhydra: {sweeper: {params: {lr: '0.1,0.01', width: 'range(1,3)'}}}\n"
    )
    (folder / "small.yaml").write_text(
        "task: {name: lis, n: 4}\nmodel: {name: standard, d: [8, 16], layers: 1, heads: 2}\n"
    )
    store = Store.create(str(folder / "sweepd-results"))
    mini = (
        folder / "grids" / "mini.yaml",
        ["task.n=4", "model.d=8", "seeds=[0]", "settle=off", *TINY],
    )
    save(Store.create(str(folder / "cluster-results")), *mini)
    run(store, *mini)
    run(store, folder / "small.yaml", ["lengths=[1.5,2]", *TINY])
    save(store, folder / "small.yaml", ["name=from_500", *TINY])
    overrides = ["task.n=[4,8,16]", "model.d=[8,16]", "seeds=[0]", "settle=off", *TINY]
    trial = run(store, folder / "grids" / "quickstart.yaml", overrides)

    proxy = Proxy(objects)
    for name in ("my-bucket", "ours"):
        objects.ask("PUT", f"/{name}", {}, b"")
    with pytest.MonkeyPatch.context() as patch:
        proxy.lead_s3(patch)
        save(Store.create("s3://my-bucket/sweeps"), folder / "grid.yaml", TINY)
    yield Place(folder, trial, proxy)
    proxy.close()
