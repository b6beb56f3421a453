"""Files of claims: those that ship, a user's own from the command line, and all that is wrong with
a file at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_store import FakeStore, now, planned
from inprocess import sweepd
from questions import ran
from trained import run

import sweepd as api
from sweepd.errors import UserError
from sweepd.grid.yamlfile import GridError
from sweepd.query.claim_files import load_claims, shipped_claims
from sweepd.query.claims import judged
from sweepd.query.database import connect
from sweepd.store.store import Store

ROOT = Path(__file__).parents[2]


def test_every_shipped_file_is_right() -> None:
    files = sorted((ROOT / "claims").glob("*.yaml"))
    assert {path.stem: path.resolve() for path in files} == {
        name: path.resolve() for name, path in shipped_claims().items()
    }
    for path in files:
        found = load_claims(str(path))  # by its path, it is checked as a user's file is
        assert found == load_claims(path.stem)
        assert "arXiv" in found.paper
        assert all(claim.grid for claim in found.claims)


# What is wrong with a file

WRONG = """\
paper: mine
claim: []
claims:
- says: one
  ask: min d where acc > 0.9 and task = lis
  holds: value > othr.value
  grid: quickstrat
  at: {layer: 2}
- says: two
  hold: value > 3
  ask: fit d ~ L by mdoel where acc > 0.9
  holds: exponnt > 0.25
  bound: uper
- says: three
  ask: fit d ~ L where acc > 0.9
  holds: exponnt > other.exponent
  every: size
  control: {ask: mni d where acc > 0.9, hols: 3}
- says: four
  ask: fit d ~ L where acc > 0.9
  holds: exponnt > other.exponent
  every: size
  control: {ask: mni d where acc > 0.9}
- {says: five, ask: min d, holds: value}
"""


def test_everything_wrong_is_said_at_once_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(WRONG)
    with pytest.raises(GridError) as caught:
        load_claims(str(path))
    lines = str(caught.value).splitlines()
    for place, what in (
        ("mine.yaml:2: claim:", "no such key (did you mean claims?)"),
        ("mine.yaml:7: claims[0].grid:", "no such grid (did you mean quickstart?)"),
        ("mine.yaml:5: claims[0].ask:", "no column lis; a text stands in quotes: 'lis'"),
        ("mine.yaml:6: claims[0].holds:", "no comparison"),
        ("mine.yaml:8: claims[0].at.layer:", "no column layer (did you mean layers?)"),
        ("mine.yaml:10: claims[1].hold:", "no such key (did you mean holds?)"),
        ("mine.yaml:13: claims[1].bound:", "'lower', 'upper' or 'both'"),
        ("mine.yaml:18: claims[2].control.hols:", "no such key (did you mean holds?)"),
        ("mine.yaml:21: claims[3].holds:", "no exponnt (did you mean exponent?)"),
        ("mine.yaml:21: claims[3].holds:", "`other` needs a row"),
        ("mine.yaml:22: claims[3].every:", "say in `at` which values of size"),
        ("mine.yaml:23: claims[3].control.ask:", "a question is `min EXPR"),
        ("mine.yaml:24: claims[4].ask:", "say when a cell passes"),
        ("mine.yaml:24: claims[4].holds:", "'value' is no comparison"),
    ):
        assert any(place in line and what in line for line in lines), (place, what, lines)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("paper: mine\n", "claims: missing"),
        ("paper: mine\nclaims: []\n", "at least one"),
        ("paper: 3\nclaims: [3]\n", "mine.yaml:1: paper: "),
        ("[]\n", "a mapping is needed"),
        ("paper: mine\nclaims:\n- says: one\n", "claims[0].holds: missing"),
    ],
)
def test_a_file_that_is_no_file_of_claims(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(GridError) as caught:
        load_claims(str(path))
    assert told in str(caught.value)


def test_a_name_that_does_not_ship() -> None:
    with pytest.raises(UserError, match="did you mean yang2024 or"):
        load_claims("yang2042")
    with pytest.raises(GridError, match="cannot be read"):
        load_claims("nowhere/yang2024.yaml")


# A user's own file is judged as ours are

MINE = """\
paper: mine
at: {heads: [2, 4]}
claims:
- {says: holds, ask: min d where acc > 0.9, holds: value <= 16}
- says: fails
  ask: min d where acc > 0.9
  beside: {model: standard}
  holds: value > 2 * other.value
- {says: is open, ask: min d where acc > 0.9, holds: value > 8, bound: upper}
- {says: is above an upper bound, ask: min d where acc > 0.9, holds: value <= 2, bound: upper}
- {says: is above a lower bound, ask: min d where acc > 0.9, holds: value <= 2, bound: lower}
- {says: elsewhere, ask: min d where acc > 0.9, holds: value > 8, at: {heads: 3}}
- {says: nowhere, ask: min width where acc > 0.9, holds: value > 8}
- says: lacks a size
  ask: min d where acc > 0.9
  holds: value <= 16
  at: {size: {lis: [8, 16, 64]}}
  every: size
- says: a control says no
  ask: min d where acc > 0.9 and model = 'linear'
  holds: value <= 16
  control: {ask: min d where acc > 0.9 and model = 'standard', holds: value > 16}
- says: two things at once
  ask: max acc by d where model = 'linear'
  holds: acc > 0.4 and seeds = 1
  at: {}
"""
EXPECTED = {
    "holds": "supported",
    "fails": "contradicted",
    "is open": "cannot tell",
    "is above an upper bound": "cannot tell",
    "is above a lower bound": "contradicted",
    "elsewhere": "at other settings",
    "nowhere": "not measured",
    "lacks a size": "cannot tell",
    "a control says no": "cannot tell",
    "two things at once": "supported",
}


def store() -> FakeStore:
    """Both models pass with d = 8 and 16 at sizes 8 and 16, and not with half of it."""
    trials = [
        planned(n, d, model=model)
        for n in (8, 16)
        for d in (4, 8, 16, 32)
        for model in ("linear", "standard")
    ]
    return ran(trials, lambda trial: 0.95 if trial["d"] >= trial["n"] else 0.5)


def statuses(folder: Path, text: str, source: FakeStore) -> dict[str, Any]:
    """What is said of the claims of a file with this text."""
    (folder / "mine.yaml").write_text(text)
    rows = judged(connect(source, code=now), load_claims(str(folder / "mine.yaml")))
    return {row["claim"]: row for row in rows if row["kind"] == "claim"}


def test_each_status(tmp_path: Path) -> None:
    found = statuses(tmp_path, MINE, store())
    assert {claim: row["status"] for claim, row in found.items()} == EXPECTED
    lacking = found["lacks a size"]
    assert "was not measured at size 64" in lacking["evidence"] + lacking["decides"]
    assert found["a control says no"]["control"].startswith("2 against: standard on lis")


def test_a_column_that_no_sweep_has_is_null(tmp_path: Path) -> None:
    ask = "min d where acc > 0.9 and {} and model = 'linear'"
    claims = [
        {"says": text, "ask": ask.format(text), "holds": "value <= 16"}
        for text in ("cot is not false", "cot = true", '"group" is null')
    ]
    found = statuses(tmp_path, json.dumps({"paper": "mine", "claims": claims}), store())
    assert [row["status"] for row in found.values()] == ["supported", "not measured", "supported"]


def test_fails_without_a_forecast_bound_nothing(tmp_path: Path) -> None:
    text = "paper: mine\nclaims: [{says: a, ask: min d where acc > 0.9, holds: value > 4}]"
    source = store()
    assert statuses(tmp_path, text, source)["a"]["status"] == "supported"
    source.infos["s"]["settle"] = {"factor": 4, "least": 2000, "most": 4000, "share": None}
    row = statuses(tmp_path, text, source)["a"]
    assert row["status"] == "cannot tell" and "not trained" in row["decides"] + row["evidence"]
    # Rows with nothing but such fails were measured all the same.
    row = statuses(tmp_path, text.replace("0.9", "0.9 and d <= 4"), source)["a"]
    assert row["status"] == "cannot tell"
    assert "not bounded (4 failed, no forecast)" in row["evidence"]


def test_from_the_command_line_and_from_python(folder: Path) -> None:
    """A real store, the file that `init --claims` writes, and one of a user's own."""
    made = sweepd("init", "--claims")
    assert made.code == 0 and "next: sweepd compare claims.yaml" in made.err
    assert sweepd("init", "--claims").code == 2
    assert sweepd("init", "--claims", "--task", "lis").code == 2
    (folder / "grid.yaml").write_text(
        "task: {name: lookup, n: [2, 3]}\ngoal: acc >= 0\n"
        "model: {name: [standard, linear], d: [4, 8], layers: 1, heads: 1}\n"
        "train: {steps: 4, batch_size: 4}\nevaluate: {verdict_samples: 16, check_samples: 8}\n"
    )
    run(Store.create("sweepd-results"), folder / "grid.yaml")
    (folder / "mine.yaml").write_text(
        "paper: mine\nclaims:\n- says: any width passes\n  ask: min d where acc >= 0\n"
        "  holds: value <= 4\n  grid: grid.yaml\n  at: {layers: 1, n: [2, 3]}\n"
    )
    printed = sweepd("compare", "mine.yaml")
    assert printed.code == 0
    assert printed.out.startswith("supported: any width passes\n  for: ")
    assert "  for: linear on lookup at size 2: <= 4 with 4 steps\n" in printed.out
    rows = json.loads(sweepd("compare", "mine.yaml", "--sweep", "grid", "--json").out)
    assert [row["kind"] for row in rows] == ["claim"] + ["row"] * 4
    assert api.open().compare("mine.yaml", sweep="grid").rows == rows
    assert sweepd("compare", "mine.yaml", "--csv").out.startswith("kind,paper,claim,status,")
    template = sweepd("compare", "claims.yaml")
    assert template.code == 0 and template.out.startswith(("cannot tell: ", "not measured: "))
    assert "sweepd plan quickstart.yaml" in template.out
    wrong = sweepd("compare", "min.yaml")
    assert wrong.code == 2 and "did you mean mine.yaml?" in wrong.err
    assert sweepd("report", "--out", "r.html", "--claims", "mine.yaml").code == 0
    page = (folder / "r.html").read_text()
    assert "any width passes" in page and "supported" in page
