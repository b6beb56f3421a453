"""Whatever a user types, and whatever a file holds, a command answers or refuses. Its exit code is
one of the contract, and there is a message. There is no traceback and no hang, and not a byte is
written outside the results folder.

A few hundred inputs are tried here; `make torture` tries 100,000. The modules below the command
line have such tests of their own.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import inprocess
import pytest
import yaml
from fake_store import as_present, planned
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from inprocess import Answer

from sweepd.store.store import Store, SweepInfo

GRID = """\
name: small
task:  {name: lis, n: [2, 4], value_range: 16}
model: {name: [standard, linear], d: [4, 8], layers: 1, heads: 2}
train: {steps: 60, lr: {base: 5.0e-3, power: -0.5}, schedule: wsd}
evaluate: {check_every: 30, check_samples: 64}
seeds: [0, 1]
goal:  acc > 0.5
pass:  median
search: {staircase: {spot_checks: 1}}
stop:  {success: 0.98}
resources: {cpus: 1, gpus: 0}
tune: [train.lr]
"""
CLUSTER = """\
kind: local
results: results
per_trial: {cpus: 1, gpus: 0}
"""
EXIT_CODES = {0, 1, 2, 3}
sweepd = partial(inprocess.sweepd, watched=True)


def inputs(share: float) -> settings:
    """This share of the profile's number of inputs."""
    return settings(
        max_examples=int(share * settings().max_examples),
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to work in, with a grid and a store that one sweep has filled."""
    folder = tmp_path_factory.mktemp("hostile")
    store = Store.create(str(folder / "results"))
    trials = [planned(n=n, d=d, seed=seed) for n in (4, 8) for d in (8, 16) for seed in (0, 1)]
    info = SweepInfo(
        goal="acc > 0.9", size_fields={"lis": "n"}, base=str(folder), accepted_for=as_present()
    )
    store.save_sweep("small", GRID, info, trials)
    store.new_launch({"sweep": "small", "pid": 1, "host": "elsewhere"})
    ended = {"attempt": 1000, "sweep": "small", "status": "completed", "acc": 0.95, "loss": 0.1}
    store.write_trials([{**trial, **ended, "correct": 95, "total": 100} for trial in trials[:-1]])
    store.write_metrics([{"id": trials[0]["id"], "attempt": 1000, "step": 10, "loss": 1.0}])
    (folder / "grid.yaml").write_text(GRID)
    before = Path.cwd()
    os.chdir(folder)
    sweepd("plan", "grid.yaml")  # imports, which write caches, are nobody's deeds
    yield folder
    os.chdir(before)


def refused_or_answered(answer: Answer, folder: Path) -> Answer:
    assert answer.code in EXIT_CODES, answer
    assert answer.err or answer.code in (0, 1), answer
    assert not answer.written_outside(folder / "results"), answer.deeds
    return answer


def planned_or_refused(answer: Answer) -> bool:
    """Returns whether a plan was made or its files refused. The machine may be to blame too, since
    a trial may ask for more than it has."""
    return answer.code in (0, 2) or (answer.code == 3 and "the largest node has" in answer.err)


TOKENS = st.sampled_from([
    *"{}[]:,-#&*!|>'\"%@\n ?0.~=<", "  ", "\n  ", ": ", "- ", "&a ", "*a", "<<: *a",
    "!!python/name:os", "0x1f", "1e400", ".nan", "-1", "0", "null", "true", "'", "lis", "d",
    "name", "linear", "task", "\t", "\u2028", "\ufeff", "\x00", "é", "9" * 40,
])  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.integers()
    | st.floats()
    | st.sampled_from(["lis", "linear", "acc > 0.9", "train.lr", "a.py:X", "..", "grid", "5e-3"])
    | st.text(max_size=8)
)
KEYS = st.sampled_from(["name", "task", "model", "n", "d", "heads", "lr", "base", "kind"])
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def spoilt(draw: st.DrawFn, text: str) -> bytes:
    """A file that was right, with characters changed, values replaced or bytes damaged."""
    match draw(st.sampled_from(["tokens", "tree", "bytes", "rubbish"])):
        case "tokens":
            for _ in range(draw(st.integers(1, 4))):
                start = draw(st.integers(0, len(text)))
                end = start + draw(st.integers(0, 3))
                text = text[:start] + draw(TOKENS) + text[end:]
            return text.encode()
        case "tree":
            tree = yaml.safe_load(text)
            for _ in range(draw(st.integers(1, 3))):
                node: Any = tree
                while isinstance(node, dict | list) and node:
                    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
                    key = draw(st.sampled_from(keys))
                    if not isinstance(node[key], dict | list) or draw(st.booleans()):
                        node[key] = draw(TREES)
                        break
                    node = node[key]
            return yaml.dump(tree).encode(errors="replace")
        case "bytes":
            damaged = bytearray(text.encode())
            damaged[draw(st.integers(0, len(damaged) - 1))] = draw(st.integers(0, 255))
            return bytes(damaged)
    return draw(st.binary(max_size=60)) + "".join(draw(st.lists(TOKENS, max_size=40))).encode()


SETS = st.one_of(
    st.text(max_size=12),
    st.builds(
        "{}={}".format,
        st.sampled_from(["model.d", "task.n", "train.lr.base", "model[0].d", "seeds", "x", "goal"]),
        st.lists(TOKENS, max_size=4).map("".join) | TREES.map(lambda tree: yaml.dump(tree)),
    ),
)


@example(GRID.replace("cpus: 1", "cpus: 100000").encode(), [])
@inputs(0.8)
@given(spoilt(GRID), st.lists(SETS, max_size=2))
def test_grids(folder: Path, content: bytes, sets: list[str]) -> None:
    (folder / "spoilt.yaml").write_bytes(content)
    options = [word for option in sets for word in ("--set", option)]
    answer = refused_or_answered(sweepd("plan", "spoilt.yaml", *options), folder)
    assert planned_or_refused(answer)


@example(CLUSTER.replace("cpus: 1", "cpus: 100000").encode())
@inputs(0.8)
@given(spoilt(CLUSTER))
def test_cluster_files(folder: Path, content: bytes) -> None:
    (folder / "cluster.yaml").write_bytes(content)
    answer = sweepd("plan", "grid.yaml", "--set", "search=grid", "--cluster", "cluster.yaml")
    assert planned_or_refused(refused_or_answered(answer, folder))


PIECES = st.sampled_from([
    "min", "frontier", "fit", "by", "per", "where", "and", "or", "not", "in", "between", "is",
    "null", "d", "n", "L", "acc", "loss", "flops", "model", "task", "size", "lr", "cells",
    "trials", "raw.cells", "'lis'", "0.9", "-1", "1e400", "9" * 30, "0", "~", ",", "(", ")", "[",
    "]", "{", "}", "+", "-", "*", "/", "%", "^", "||", "<", ">", "=", "<>", ";", "--", "/*", "*/",
    "'", '"', "$$", "?", ":", "::", ".", "sqrt(", "ln(", "abs(", "count(*)", "cast(", "as",
    "double", "select", "from", "case", "when", "then", "else", "end", "like",
    "read_csv('/etc/passwd')", "\n", "\x00", "é", "\ud800", "distinct", "over ()",
])  # fmt: skip
QUESTIONS = st.one_of(
    st.lists(PIECES, max_size=12).map(" ".join),
    st.lists(PIECES | st.text(max_size=3), max_size=8).map("".join),
    st.builds(
        "{} {} where {}".format,
        st.sampled_from(["min d", "min flops by L", "frontier flops, acc", "fit d ~ L"]),
        st.sampled_from(["", "by model", "per n"]),
        st.lists(PIECES, max_size=7).map(" ".join),
    ),
)


@inputs(0.4)
@given(QUESTIONS, st.sampled_from([[], ["--json"], ["--csv"], ["--code", "all"]]))
@example("min \x1f?", [])  # a space to Python, an error to SQL
def test_questions(folder: Path, question: str, options: list[str]) -> None:
    answer = sweepd("query", "--results", "results", *options, "--", question)
    refused_or_answered(answer, folder)
    assert answer.deeds == []


@inputs(0.2)
@given(
    st.lists(PIECES, max_size=10).map(" ".join)
    | QUESTIONS.map("SELECT {}".format)
    | st.text(max_size=30),
    st.sampled_from([[], ["--json"], ["--csv"]]),
)
def test_sql(folder: Path, text: str, options: list[str]) -> None:
    answer = sweepd("sql", "--results", "results", *options, "--", text)
    assert refused_or_answered(answer, folder).code in (0, 2)
    assert answer.deeds == []


WORDS = st.sampled_from(
    ["lis", "arithmetic", "standard", "small", "ff", "..", "/", "-1", "--", "*"]
)
COMMANDS = st.sampled_from(
    ["sample", "flops", "logs", "status", "tasks", "query", "plan", "cancel"]
)
OPTIONS = st.sampled_from(
    ["--json", "--csv", "--set", "--task", "--seed", "--count", "--sweep", "--seeds", "--code"]
)


ARGUMENTS = (WORDS | OPTIONS | SETS | st.text(max_size=6)).filter(lambda word: "\0" not in word)
"""Linux gives no process an argument with a null character."""


@inputs(0.8)
@given(COMMANDS, st.lists(ARGUMENTS, max_size=6))
def test_command_lines(folder: Path, command: str, words: list[str]) -> None:
    answer = sweepd(command, *words, "--results", "results")
    refused_or_answered(answer, folder)
    assert answer.deeds == []


@st.composite
def damaged_stores(draw: st.DrawFn) -> list[tuple[int, Any]]:
    """For some of a store's files, by number, what becomes of each."""
    what = st.one_of(
        st.just("gone"),
        st.tuples(st.just("cut"), st.floats(0, 1)),
        st.tuples(st.just("flip"), st.floats(0, 0.999), st.integers(1, 255)),
        st.tuples(st.just("other"), st.integers(0, 20)),
        st.tuples(st.just("bytes"), st.binary(max_size=30)),
        st.tuples(st.just("json"), TREES),
        st.tuples(st.just("key"), st.floats(0, 0.999), TREES),
        st.tuples(st.just("named"), st.sampled_from(["a b", ".x", "ä", "x" * 120, "1", "é.json"])),
    )
    return draw(st.lists(st.tuples(st.integers(0, 20), what), min_size=1, max_size=3))


def damage(path: Path, how: Any, others: list[Path]) -> None:
    content = path.read_bytes()
    match how:
        case "gone":
            path.unlink()
        case "cut", share:
            path.write_bytes(content[: int(share * len(content))])
        case "flip", share, bits if content:
            at = int(share * len(content))
            path.write_bytes(content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :])
        case "other", number:
            path.write_bytes(others[number % len(others)].read_bytes())
        case "bytes", replacement:
            path.write_bytes(replacement)
        case "json", tree:
            path.write_text(json.dumps(tree))
        case "key", share, value:
            with contextlib.suppress(ValueError):
                data = json.loads(content)
                if isinstance(data, dict) and data:  # as it is unless it was damaged before
                    data[list(data)[int(share * len(data))]] = value
                    path.write_text(json.dumps(data))
        case "named", name:
            path.with_name(name).write_bytes(content)
            path.parent.joinpath("more").mkdir()
            path.parent.joinpath("more", path.name).write_bytes(content)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@inputs(0.04)
@given(damaged_stores())
def test_store_contents(folder: Path, damages: list[tuple[int, Any]]) -> None:
    root = folder / "damaged"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(folder / "results", root)
    files = sorted(
        path for path in root.rglob("*") if path.is_file() and path.parent.name != "locks"
    )
    for number, how in damages:
        if (path := files[number % len(files)]).exists():
            with contextlib.suppress(FileExistsError):
                damage(path, how, [other for other in files if other.exists()])
    before = contents(root)
    for command in (
        ["status"],
        ["status", "small"],
        ["query", "min d where acc>0.9"],
        ["sql", "SELECT * FROM cells, sweeps"],
        ["sql", "SELECT count(*) FROM metrics, attempts"],
        ["plan", "grid.yaml", "--set", "search=grid"],
        ["logs", "0"],
        ["cancel", "small"],
    ):
        answer = refused_or_answered(sweepd(*command, "--results", "damaged"), folder)
        assert not answer.written_outside(Path(os.environ["XDG_CACHE_HOME"]))
    assert contents(root) == before
