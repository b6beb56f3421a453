"""The commands `plot` and `report`: what they write and when, and what they refuse."""

import contextlib
from collections.abc import Collection
from pathlib import Path

import inprocess
import invented
import pytest

from sweepd.cli import plot
from sweepd.store.store import Store

ALL = ("--results", "results", "--code", "all")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("draw")
    invented.save(str(found / "results"))
    return found


def sweepd(
    folder: Path, *arguments: str, exits: int = 0, watched: bool = False
) -> inprocess.Answer:
    with contextlib.chdir(folder):
        return inprocess.sweepd(*arguments, exits=exits, watched=watched)


def test_plot_writes_the_form_that_the_name_asks_for(folder: Path) -> None:
    begins = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!doctype html>"}
    for form, start in begins.items():
        (folder / f"figure.{form}").write_text("an older figure")
        asked = ("plot", "min", "s", "--out", f"figure.{form}", "--width", "one", *ALL)
        done = sweepd(folder, *asked, watched=form != "html")  # whose scripts are made apart
        assert f"min drawn in figure.{form}" in done.err, done.err
        assert (folder / f"figure.{form}").read_bytes().startswith(start)
        assert form == "html" or not done.written_outside(folder)
    assert not list(folder.glob(".figure*"))


def test_plot_asks_what_its_options_say(folder: Path) -> None:
    where = "task = 'lis' and model <> 'sparse' and acc > 0.5"
    options = ("--where", where, "--of", "params", "--along", "size", "--seeds", "any")
    sweepd(folder, "plot", "min", "--out", "figure.svg", *options, *ALL)
    svg = (folder / "figure.svg").read_text()
    assert "least parameters" in svg and "sparse" not in svg
    sweepd(folder, "plot", "frontier", "--out", "figure.svg", "--cost", "params", *ALL)
    assert ">parameters<" in (folder / "figure.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("plot", "min", "--out", "figure.gif"), 2, "end it in .svg, .png, .pdf or .html"),
        (("report", "--out", "page.pdf"), 2, "end it in .html"),
        (("plot", "min", "nobody", "--out", "f.svg"), 2, "no sweep 'nobody'"),
        (("plot", "min", "--out", "f.svg", "--where", "dd > 3"), 2, "dd"),
        (("plot", "min", "--out", "f.svg", "--of", "n"), 2, "against the size"),
        (("plot", "heatmap", "--out", "f.svg", "--where", "d > 999"), 1, "nothing to draw"),
        (("report", "--out", "f.html", "--where", "d > 999"), 1, "nothing to draw"),
        (("plot", "min", "--out", "no/such/folder.svg"), 3, "cannot write no/such/folder.svg"),
    ],
)
def test_what_cannot_be_drawn_writes_no_file(
    folder: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    assert said in sweepd(folder, *arguments, *ALL, exits=code).err
    assert not list(folder.glob("f.*"))


def test_what_explains_an_empty_figure_is_said_too(folder: Path) -> None:
    done = sweepd(folder, "plot", "curves", "--out", "f.svg", "--results", "results", exits=1)
    assert "nothing to draw" in done.err
    assert "trials that another code made (--code all)" in done.err


def test_a_report_is_written_until_nothing_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = [{"s"}, {"s"}, set[str]()]

    def driven(store: Store, sweeps: Collection[str]) -> set[str]:
        assert list(sweeps) == ["s"]
        return running.pop(0)

    monkeypatch.setattr(Store, "driven_elsewhere", driven)
    monkeypatch.setattr(plot, "WATCH_SECONDS", 0.0)
    done = sweepd(folder, "report", "s", "--out", "report.html", "--watch", *ALL)
    assert done.err.count("report written to report.html") == 3
    assert "<h1>Sweep s</h1>" in (folder / "report.html").read_text() and not running
