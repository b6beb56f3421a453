"""A program as docs/program.md shows it, from a file to an answer, beside one that fails."""

from pathlib import Path

import pytest
from shell import ONE_AT_A_TIME, Shell

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CHANGES = ["loop.classes=2", "loop.width=[0,8]", "seeds=[0]", "retries=0", "goal='acc > 0.5'"]
CHANGES += [f"resources={ONE_AT_A_TIME}"]
OPTIONS = [option for change in CHANGES for option in ("--set", change)]


@pytest.fixture(scope="module")
def swept(module_shell: Shell) -> Shell:
    for name in ("train.py", "train.yaml"):
        text = (EXAMPLES / name).read_text()
        fails = "\nif args.width == 0:\n    raise SystemExit('no width')\n"
        module_shell.write(name, text.replace("\n\ntorch.manual", f"{fails}\ntorch.manual"))
    module_shell.run("launch", "train.yaml", "--yes", *OPTIONS, exits=1)
    return module_shell


def test_its_trials(swept: Shell) -> None:
    bad, good = swept.sql("SELECT * FROM trials ORDER BY width")
    assert (good["status"], good["step"], good["size"]) == ("completed", 100, 2)
    assert good["correct"] == round(good["acc"] * 500) > 250
    assert bad["status"] == "failed" and bad["error"].startswith("it ended with exit code 1: no ")
    assert "no width" in swept.run("logs", bad["id"]).stdout
    steps = swept.sql(f"SELECT step FROM metrics WHERE id = '{good['id']}' ORDER BY step")
    assert [row["step"] for row in steps] == [20, 40, 60, 80, 100]


def test_it_is_asked_shown_and_repeated_as_any_other(swept: Shell) -> None:
    [row] = swept.rows("query", "min width where acc > 0.5")
    assert (row["size"], row["value"]) == (2, 8)
    [good] = swept.sql("SELECT id FROM trials WHERE status = 'completed'")
    swept.run("show", good["id"], "--out", "again")
    assert (swept.folder / "again" / "train.py").read_text().startswith('"""A script')
    [planned] = swept.rows("plan", "again/grid.yaml", "--results", "sweepd-results")
    assert (planned["trials"], planned["done"]) == (1, 1)
