"""Each number that README.md or a page of results/ prints is recomputed from what is committed.

`numbers.yaml` beside a page quotes the page piece by piece, and says what computes the numbers of
each piece (the numbers of README.md are in results/numbers.yaml):

    - says: .419, .450, .511 and .623       # a piece of the page, word for word
      sql: SELECT avg(acc) FROM 'trials.csv' WHERE d = 4 GROUP BY steps ORDER BY steps
    - says: 35% of the trials               # each line of an output: i, line, its numbers n
      sql: SELECT n[2] FROM lines('output.txt') WHERE line LIKE 'trials%'
    - says: 0.75 (0.26 … 1.22)
      ask: fit d ~ n by model               # a question; of: which of its `stores`; where: its rows
      columns: [exponent, low, high]        # or [value or fail]
    - says: 648 trials
      run: plan grids/paper.yaml            # any command that has --json
      columns: [trials]
    - says: 46 (68%)
      in: output.txt                        # what a command printed; line: words of the lines meant
      line: all
    - told: 24 min 5 s                      # what only the run itself could say
    - set: at its best rate, .02            # a setting, and no result

`macros` of such a file are SQL that runs first.

A number is a single digit, a setting (`d = 16`, `rate .02`, `2000 steps`), a date or a version, or
it stands in such a piece.
"""

import functools
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import inprocess
import pytest
import yaml
from pages import MANUAL, ROOT, commands, name
from rebuilt import rebuild

NUMBER = re.compile(r"(?<![\w.])[−-]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?(?!\w)%?")
ONE = r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
LIST = rf"{ONE}(?:(?:, (?:and |or )?| and | or | to ){ONE})*"
NO_RESULT = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d:\d\d|\b(?=[0-9a-f]*\d)[0-9a-f]{7}\b|\d{4}\.\d{5}"
    r"|(?:torch|Python|License) [\d.]+"
    rf"|\b[a-zA-Z_]+ ?[=≤≥<>] ?{LIST}|{LIST} (?:steps|sizes|seeds|layers|heads|widths|rates)"
    rf"|(?:rates?|seeds?|Tables?|Figures?|steps|budgets?) {LIST}|`[^`]*`|\]\([^)]*\)"
)
"""Settings, dates, versions, commits, papers, code and the addresses of links."""
QUICKSTART = ROOT / "results" / "quickstart" / "numbers.yaml"
LINES = r"""
    CREATE MACRO lines(file) AS TABLE
    SELECT i, line, [CASE WHEN one LIKE '%\%' ESCAPE '\' THEN .01 ELSE 1 END
        * rtrim(replace(one, ',', ''), '%')::DOUBLE for one in regexp_extract_all(line,
        '(?:^|[^\w.])([+-]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?%?)', 1)] AS n
    FROM (SELECT unnest(string_split(content, chr(10))) AS line,
        generate_subscripts(string_split(content, chr(10)), 1) AS i FROM read_text(file))"""
FILES = {ROOT / "README.md": ROOT / "results" / "numbers.yaml"} | {
    page: page.with_name("numbers.yaml") for page in sorted((ROOT / "results").glob("*/README.md"))
}
EVERY = pytest.mark.parametrize("page", FILES, ids=lambda page: page.parent.name)


def numbers(text: str) -> list[str]:
    return [one.rstrip(",") for one in NUMBER.findall(text)]


def same(printed: str, value: float) -> bool:
    """Whether a number is this value, as it is printed: rounded, a share perhaps as a percentage.
    What lies in the middle between two may be printed either way."""
    plain = printed.replace("−", "-").replace(",", "").rstrip("%")
    mantissa, _, power = plain.partition("e")
    digit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    value = float(value) * (100 if printed.endswith("%") else 1)
    return abs(float(plain) - value) <= digit / 2 * (1 + 1e-6)


def store(page: Path, entry: dict[str, Any], made: Path) -> str:
    """The results folder of a page that is asked: committed, or made of a CSV of trials."""
    if "rows" not in entry:
        return str(FILES.get(page, QUICKSTART).parent / entry["folder"])
    folder = made / entry["name"]
    if not folder.exists():
        rows = FILES[page].parent / entry["rows"]
        rebuild(ROOT / entry["grid"], rows, str(folder), entry.get("set", ()))
    return str(folder)


@functools.cache
def ran(*words: str) -> str:
    return inprocess.sweepd(*words).out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(autouse=True)
def _at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@EVERY
def test_each_number_is_that_of_the_rows(page: Path, made: Path) -> None:
    listed = yaml.safe_load(FILES[page].read_text())
    stores = {entry["name"]: entry for entry in listed.get("stores", ())}
    text, wrong = " ".join(page.read_text().split()), []
    rest = text  # without what is quoted
    duck = duckdb.connect()
    duck.execute(f"SET file_search_path = '{FILES[page].parent}'")
    duck.execute(LINES)
    duck.execute(listed.get("macros", "SELECT 1"))
    for entry in listed["numbers"]:
        says = " ".join(str(entry.get("says") or entry.get("told") or entry["set"]).split())
        if says not in text:
            wrong.append(f"the page does not say: {says}")
        for quoted in re.finditer(re.escape(says), text):
            rest = rest[: quoted.start()] + " " * len(says) + rest[quoted.end() :]
        values: list[Any] = []
        if "sql" in entry:
            cells = [one for row in duck.execute(entry["sql"]).fetchall() for one in row]
            values = [one for cell in cells for one in (cell if isinstance(cell, list) else [cell])]
        elif "ask" in entry or "run" in entry:
            if "run" in entry:
                answer = ran(*entry["run"].split(), "--json")
            else:
                of = stores[entry.get("of", next(iter(stores)))]
                which = ["--sweep", of["sweep"]] if "sweep" in of else []
                which += ["--code", "all", "--results", store(page, of, made)]
                answer = ran("query", entry["ask"], "--json", *which)
            where = entry.get("where", {})
            rows = [r for r in json.loads(answer) if where.items() <= r.items()]
            values = [
                next((row[one] for one in column.split(" or ") if row[one] is not None), None)
                for row in rows
                for column in entry["columns"]
            ]
        elif "in" in entry:
            lines = (FILES[page].parent / entry["in"]).read_text().splitlines()
            meant = [line for line in lines if entry["line"] in line]
            there = [float(one.rstrip("%").replace(",", "")) for one in numbers("\n".join(meant))]
            for one in numbers(says):
                if not any(same(one.rstrip("%"), value) for value in there):
                    wrong.append(f"{says}: no line has {one}")
            continue
        else:
            assert "says" not in entry, f"{says}: what computes it?"
            continue
        values = [one for one in values if one is not None]
        printed = numbers(says)
        if len(values) != len(printed) or not all(map(same, printed, values)):
            wrong.append(f"{says}: the rows say {values}")
    assert not wrong, "\n".join(wrong)
    rest = re.sub(r"```.*?```", " ", rest)
    left = [one for one in numbers(NO_RESULT.sub(" ", rest)) if not re.fullmatch(r"\d", one)]
    assert not left, f"{FILES[page].name} does not say where these come from: {left}"


@pytest.mark.parametrize("page", [*FILES, *MANUAL[1:]], ids=name)
def test_each_answer_is_that_of_the_rows(page: Path, made: Path) -> None:
    """A question to a sweep of this page, or to the quickstart, that is shown with a `$` has the
    answer that stands below it."""
    entries = yaml.safe_load(FILES.get(page, QUICKSTART).read_text()).get("stores", ())
    stores = {entry["name"]: entry for entry in entries}
    for command in commands(page):
        words = command.words
        sweep = words[words.index("--sweep") + 1] if "--sweep" in words else None
        if command.output and sweep in stores:
            place = store(page, stores[sweep], made)
            assert "\n".join(command.output) == ran(*words[1:], "--results", place).rstrip("\n")
