"""The commands that the manual shows run on a small real store, and print the header that the page
shows. The commands that are not run here are listed by name, with the reason."""

import re
from functools import cache
from pathlib import Path

import inprocess
import pytest
from docs.conftest import Place
from pages import Shown, all_commands

NOT_RUN = {
    "make": "its commands run in CI; quickstart trains for minutes, torture and clusters longer",
    "python benchmarks/": "benchmarks take minutes",
    ".venv/bin/python -m pytest": "pytest in pytest",
    "lint-imports": "tests/test_packaging.py runs it",
    "ls ": "no command of ours",
    "aws ": "needs an account; nobody has run it, and the page says so",
    "gcloud ": "needs an account; nobody has run it, and the page says so",
    "sweepd plot fit": "needs three sizes that something is known of; tests/figures draw it",
    "sweepd cluster ": "needs a cluster; tests/cluster and tests/machines run them",
    "sweepd doctor --cluster": "needs an account; tests/cluster/test_aws.py runs it",
    "sweepd resume example --cluster": "needs a cluster; tests/machines runs it",
}
TABLES = ("plan", "query", "sql", "status", "gc", "tasks", "models", "compare", "doctor")
"""Commands that print a table whose first line names its columns."""


def is_run(shown: Shown) -> bool:
    return not shown.text.startswith(tuple(NOT_RUN))


@cache
def once(*words: str) -> inprocess.Answer:
    """What a command answers, which several pages may show."""
    return inprocess.sweepd(*words)


@pytest.mark.parametrize("shown", [*filter(is_run, all_commands())], ids=str)
def test_it_runs(
    shown: Shown, docs_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, command, *words = shown.words
    assert program == "sweepd", f"{shown}: run it, or say in NOT_RUN why not"
    if command in ("launch", "merge") and "--dry-run" not in words:
        words.append("--dry-run")
    if command in ("logs", "show"):
        words = [docs_place.trial[:8] if re.fullmatch(r"[0-9a-f]{4}", w) else w for w in words]
    if command == "answer":  # for a moment, in a store of its own
        words = [re.sub(r"^[\d.]+$", "0.02", word) for word in words if word != "--json"]
        words += ["--json", "--in-process", "--results", str(tmp_path)]
    if command == "skill":
        words = [str(tmp_path / "SKILL.md") if word.endswith(".md") else word for word in words]
    if command == "init":  # which replaces nothing, and is shown more than once
        words += ["--out", str(tmp_path)]
    monkeypatch.chdir(docs_place.folder)
    for name in ("SWEEPD_RESULTS", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    docs_place.s3.lead_s3(monkeypatch)
    answer = once(command, *words)
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
