"""The report: what it says, and what it does in a browser without a network."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from browser import Browser
from hypothesis import given
from hypothesis import strategies as st
from invented import HOSTILE

from sweepd.figures.kinds import KINDS, Questions
from sweepd.figures.report import LEAST_POINTS, MOST_POINTS, points_each, report

LAUNCH = {
    "number": 1,
    "sweep": "s",
    "started": "2026-01-01T00:00:00+00:00",
    "command": ["/home/me/bin/sweepd", "launch", "my grid.yaml"],
    "host": HOSTILE,
    "platform": "Linux",
    "python": "3.12",
    "versions": {"torch": "2.6"},
    "commit": "0123abcd",
    "diff": "+ a change",
}


def page_of(asked: Questions) -> str:
    grids = {"s": f"name: s # {HOSTILE}"}
    return report("Sweep s", asked, grids, [LAUNCH], ["yang2024"], "sweepd report").decode()


@pytest.fixture(scope="module")
def text(asked: Questions) -> str:
    return page_of(asked)


@pytest.fixture(scope="module")
def file(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(text)
    return path


def told(text: str) -> str:
    """What a page's body says, without its scripts and tags."""
    body = text[text.index("<main>") : text.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_it_answers_and_names_what_has_no_forecast(text: str, asked: Questions) -> None:
    said = told(text)
    assert "Which is the least d with acc > 0.9?" in said
    assert "linear: 8 < d ≤ 16 at n = 8*, 16 < d ≤ 32 at n = 16*" in said
    assert "In none of the 12 rows a forecast says that it goes on failing" in said
    for row in asked.least.answer.rows:
        assert f"{row['model']} on lis at n = {row['size']} ({row['why']})" in said


def test_it_tells_failures_costs_origin_and_how_to_repeat_it(text: str) -> None:
    said = told(text)
    failed = re.search(r"sweepd logs ([0-9a-f]{8})", said)
    assert failed and HOSTILE in unescape(text) and "2 trials failed" in said
    assert "0123abcd with uncommitted changes" in said and "torch 2.6" in said
    for line in ("git checkout 0123abcd", "sweepd launch 'my grid.yaml'", "sweepd report"):
        assert line in said
    assert "sweepd query 'min d' --sweep s" in said
    assert "at other settings" in said and "5 layers" not in said  # which was not measured


def test_it_holds_each_figure_and_each_curve(text: str, asked: Questions) -> None:
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    found = json.loads(data)
    assert set(found["figures"]) == {*KINDS, "curve"}
    trials = {trial[0]: trial[3] for cell in found["curves"].values() for trial in cell["trials"]}
    assert set(trials) == set(asked.curves)
    for id_, scores in trials.items():
        assert scores == pytest.approx([score for _, score in asked.curves[id_]], abs=1e-4)


def test_a_part_without_an_answer_says_why(asked: Questions) -> None:
    said = told(page_of(replace(asked, where="size <= 16", notes=[])))
    assert "a fit needs 3" in said and "Nothing to draw: no law" in said


@given(st.integers(0, 1_000_000))
def test_curves_of_many_trials_are_thinned(trials: int) -> None:
    each = points_each(trials)
    assert each >= LEAST_POINTS
    assert each * trials <= max(MOST_POINTS, LEAST_POINTS * trials)


def test_in_a_browser_it_draws_all_and_nothing_of_a_trial_runs(
    browser: Browser, file: Path
) -> None:
    with browser.open(file) as page:
        drawn = page.run(
            "[...document.querySelectorAll('[data-figure]')]"
            ".map(e => [e.dataset.figure, e.querySelectorAll('svg path').length > 5])"
        )
        assert drawn == [[kind, True] for kind in KINDS]
        assert page.run("window.ran") is None
        assert page.said == []
        assert page.requests == [file.as_uri()]
        labels = page.run(
            "[...document.querySelectorAll('[data-figure][role]')].map(e => e.ariaLabel)"
        )
        assert labels == [kind.shows for kind in KINDS.values()]


def test_in_a_browser_a_cell_tells_its_trials_and_shows_its_curves(
    browser: Browser, file: Path, asked: Questions
) -> None:
    with browser.open(file) as page:
        cell = "#min path[aria-label*='8 < d ≤ 16']"
        page.point_at(cell)
        page.wait_for("!document.getElementById('tooltip').hidden")
        assert "least value" in page.run("document.getElementById('tooltip').innerText")
        page.point_at(cell, click=1)
        page.wait_for("document.querySelectorAll('#curve svg path').length > 2")
        assert "sweepd logs" in page.run("document.querySelector('#curve p').textContent")
        heading = page.run("document.querySelector('#curve h2').textContent")
        assert re.fullmatch(r"\w+ on lis, n = \d+, d = \d+", heading)
        page.run("document.querySelector('#curve button').click()")
        assert page.run("document.getElementById('curve').hidden") and page.said == []


def test_in_a_browser_it_follows_the_readers_colours(browser: Browser, file: Path) -> None:
    with browser.open(file) as page:
        ink = "getComputedStyle(document.querySelector('#min svg text')).fill"
        colours = {}
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            page.call("Emulation.setEmulatedMedia", features=features)
            colours[scheme] = page.run(ink)
        assert colours == {"light": "rgb(26, 26, 26)", "dark": "rgb(232, 232, 230)"}
