"""What a question costs on an object store: which requests it sends, and how many, before and after
compaction. docs/store.md shows these figures."""

import itertools

from fake_store import as_present, planned
from inprocess import sweepd
from object_store import Proxy

from sweepd.store.store import Store, SweepInfo

SWEEPS = 3


def fill(store: Store, seeds: int) -> int:
    """Three sweeps with 20 cells each, all trials ended, nothing compacted: how many trials."""
    cells = itertools.product((4, 8, 12, 16), (8, 16, 32, 64, 128), range(seeds))
    rows = [planned(n=n, d=d, seed=seed) for n, d, seed in cells]
    for k in range(SWEEPS):
        mine = [{**row, "id": f"{i:04x}{k}", "config": f"{i:04x}{k}", "layers": k + 1}
                for i, row in enumerate(rows)]  # fmt: skip
        info = SweepInfo(
            goal="acc > 0.5", base="/", accepted_for=as_present(), size_fields={"lis": "n"}
        )
        store.save_sweep(f"s{k}", "", info, mine)
        for row in mine:
            ended = {"attempt": 1000, "sweep": f"s{k}", "status": "completed", "total": 100}
            store.write_trials([{**row, **ended, "acc": 0.9, "correct": 90}])
            store.write_metrics([{"id": row["id"], "attempt": 1000, "step": 1, "loss": 1.0}])
    return SWEEPS * len(rows)


def test_requests_of_questions(s3: Proxy, bucket: str) -> None:
    address = f"s3://{bucket}/results"
    store = Store.create(address)
    trials = fill(store, seeds=2)

    def cost(*arguments: str) -> tuple[int, int]:
        """How often it listed and fetched; it did nothing else, and nothing twice."""
        s3.requests.clear()
        sweepd(*arguments, "--results", address, "--json", exits=0)
        lists, gets = s3.count("GET", "list-type"), s3.count("GET", "/results/")
        assert lists + gets == len(s3.requests)
        assert gets == len({path for _, path in s3.requests if "list-type" not in path})
        return lists, gets

    everything = 1 + 2 * SWEEPS  # the store's mark; of each sweep its sweep.json and its plan
    count = "SELECT count(*) AS rows FROM "

    assert cost("query", "min d") == (4, everything + trials)
    assert cost("query", "min d", "--sweep", "s1") == (4, 1 + SWEEPS + 1 + trials // SWEEPS)
    assert cost("sql", f"{count} trials") == (2, 1 + SWEEPS + trials)
    assert cost("sql", f"{count} metrics") == (2, 1 + SWEEPS + trials)
    assert cost("status") == (4, everything + trials + 1)  # and who drives, or drove, what

    assert store.compact() == 2 * trials == 240
    assert cost("query", "min d") == (4, everything + 1)
    assert cost("sql", f"{count} metrics") == (2, 1 + SWEEPS + 1)


def test_what_has_not_changed_is_not_fetched_again(s3: Proxy, bucket: str) -> None:
    store = Store.create(f"s3://{bucket}/results")
    trials = fill(store, seeds=1)
    before = store.read_trials().table
    store.read_plans()
    store.write_trials([{"id": "ff", "attempt": 1000, "config": "ff", "status": "failed"}])
    store.save_sweep("s1", "", SweepInfo(goal="loss < 1"), [])
    s3.requests.clear()
    assert store.read_trials().table.num_rows == before.num_rows + 1
    assert store.sweeps() == ["s0", "s1", "s2"]
    assert store.load_sweep("s1").goal == "loss < 1"
    assert store.read_plans().table.num_rows == 2 * trials // SWEEPS
    fetched = [path.rpartition("/results/")[2] for _, path in s3.requests if "list" not in path]
    assert fetched[1:] == ["sweeps/s1/sweep.json", "sweeps/s1/plan.parquet"]
    assert fetched[0].startswith("trials/") and "-ff-" in fetched[0]
