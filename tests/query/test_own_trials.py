"""Sweeps that are asked by name are answered with the trials that they have planned, whatever other
sweeps of the store ran since with the same settings and another code."""

from fake_store import FakeStore, planned

from sweepd.query.answers import ask
from sweepd.query.database import connect

QUESTION = "max acc"


def code(task: str, model: str) -> str:
    """The code of s2 is the present one."""
    return "b"


def two_sweeps() -> FakeStore:
    """s1 ran with code a and s2, of the same settings, with code b."""
    store = FakeStore()
    for name, made_by in (("s1", "a"), ("s2", "b")):
        trials = [planned(d=d, code=made_by) for d in (8, 16)]
        store.add_sweep(name, trials, code_files={made_by: {}})
        for trial, acc in zip(trials, (0.1, 0.4) if made_by == "a" else (0.8, 0.2), strict=True):
            store.end(trial, "completed", acc, sweep=name)
    return store


def test_each_sweep_has_its_own_answer() -> None:
    store = two_sweeps()
    for name, acc in (("s1", 0.4), ("s2", 0.8)):
        for counted in (code, lambda task, model: None):
            [row] = ask(store, QUESTION, code=counted, sweeps=[name]).rows
            assert row["acc"] == acc
        views = connect(store, code="all", sweeps=[name])
        for view in ("trials", "attempts"):
            assert views.sql(f"SELECT DISTINCT code FROM {view}").rows == [
                {"code": "a" if name == "s1" else "b"}
            ]
        assert {row["code"] for row in ask(store, QUESTION, code="all", sweeps=[name]).rows} == {
            "a" if name == "s1" else "b"
        }


def test_that_the_code_has_changed_since_is_said() -> None:
    of_code = {
        name: [
            n for n in ask(two_sweeps(), QUESTION, code=code, sweeps=[name]).notes if "code" in n
        ]
        for name in ("s1", "s2")
    }
    [note] = of_code["s1"]
    assert note.startswith("the code of standard on lis has changed since")
    assert not of_code["s2"]


def test_both_sweeps_together_are_asked_about_the_present_code() -> None:
    found = ask(two_sweeps(), QUESTION, code=code, sweeps=["s1", "s2"])
    assert [row["acc"] for row in found.rows] == [0.8]
    assert "left out: 2 trials that another code made (--code all)" in found.notes


def test_a_sweep_that_was_launched_again_keeps_what_its_earlier_code_made() -> None:
    store = FakeStore()
    store.add_sweep("s", [planned(code="b")], code_files={"a": {}, "b": {}})
    store.end(planned(code="a"), "completed", 0.9)
    store.end(planned(code="other"), "completed", 1.0)
    found = connect(store, code="all", sweeps=["s"]).sql("SELECT code FROM trials")
    assert found.rows == [{"code": "a"}]
    assert not [row for row in ask(store, QUESTION, code=code, sweeps=["s"]).rows if row["acc"]]
