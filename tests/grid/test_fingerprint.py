"""The code fingerprint: what changes it, what does not, and which files it reaches. Nothing is
imported to compute it."""

from pathlib import Path

import pytest

from sweepd.errors import UserError
from sweepd.grid.fingerprint import (
    PACKAGE,
    Class,
    current_code,
    fingerprint,
    imported_names,
    source,
    trial_files,
)

MINE: tuple[Class, ...] = ("task", "mine.py:X"), ("model", "linear")

SOURCE = '''
"""A module."""
from dataclasses import dataclass

X: int = 3
"""What X is."""

@dataclass
class A:
    """A class."""
    b: int = 1
    """What b is."""

    def f(self, x, *, y=None):
        """A function."""
        return f"{x!r:>{y}} and {self.b}" if x else {**x, None: -1.5e3}
'''

SAME = """
# A remark.
from dataclasses import dataclass
X : int = 0x3
@dataclass
class A :
    b : int = 1
    def f( self, x, *, y = None ) :
        # another
        return (f'{x!r:>{y}}'
                ' and '
                f'{self.b}') if x else { **x, None: -1500.0 }
"""


def digest(tmp_path: Path, text: str) -> str:
    path = tmp_path / "m.py"
    path.write_text(text)
    return fingerprint([path], tmp_path).digest


def test_remarks_docstrings_and_formatting_do_not_count(tmp_path: Path) -> None:
    assert digest(tmp_path, SOURCE) == digest(tmp_path, SAME)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("= 3", "= 4"), ("= 3", "= 3.0"), ("= 3", "= '3'"), ("b: int = 1", "b: int = True"),
        ("b: int = 1", "c: int = 1"), ("b: int = 1", "b: int"), ("b: int = 1", "b: float = 1"),
        ("self, x, *, y=None", "self, x, y=None"), ("y=None", "y=..."), ("y=None", "y"),
        ("!r", ""), (">{y}", "<{y}"), (" and ", " or "), ("-1.5e3", "1.5e3"),
        ("None: -1", "**None, -1: -1"), ("@dataclass\n", ""), ("return f", "yield f"),
    ],
)  # fmt: skip
def test_what_runs_counts(tmp_path: Path, before: str, after: str) -> None:
    assert before in SOURCE
    assert digest(tmp_path, SOURCE) != digest(tmp_path, SOURCE.replace(before, after, 1))


def test_the_same_digest_on_every_python(tmp_path: Path) -> None:
    """A stored trial keeps its identity when Python is upgraded."""
    assert digest(tmp_path, SOURCE) == "d639b7683f1f"


def test_a_trial_s_files_are_what_its_imports_reach() -> None:
    ours = current_code((("task", "lis"), ("model", "linear")), Path())
    assert ours is not None
    # Nothing of ours counts but what it states of itself.
    stated = {f"sweepd/{name}.py": "1" for name in ("trial/training", "tasks/lis", "models/linear")}
    assert ours.files == stated


def test_a_user_s_file_counts_with_the_versions_of_what_it_imports(tmp_path: Path) -> None:
    bases = {"sweepd/tasks/base.py", "sweepd/models/base.py"}
    for text, versions in {
        "from sweepd.tasks.base import RowTask": {"sweepd/tasks/base.py"},
        "from sweepd.tasks.lis import LIS": {"sweepd/tasks/lis.py", "sweepd/tasks/base.py"},
        "from sweepd.models import linear": {"sweepd/models/linear.py", "sweepd/models/base.py"},
        "import sweepd.models._relative": {"sweepd/models/base.py"},
        "from sweepd.tasks import base\nfrom sweepd.models import base as models": bases,
        "import near": {"sweepd/models/gla.py", "sweepd/models/base.py"},
        "from sweepd import report": set(),
        "from sweepd.trial.evaluation import evaluate": {"sweepd/trial/training.py"},
    }.items():
        (tmp_path / "near.py").write_text("import sweepd.models.gla")
        (tmp_path / "mine.py").write_text(text)
        code = current_code([("loop", "mine.py:X")], tmp_path)
        assert code is not None
        ours = {name for name in code.files if name.startswith("sweepd/")}
        assert ours == versions | {"sweepd/trial/own_loop.py"}, text


def test_files_of_a_user(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name, text in {
        "mine.py": "import helper, json\nfrom package import part\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import typed\nelse:\n    import untyped\n",
        "helper.py": "def f():\n    from sweepd.tasks import base\n    import mine\n",
        "typed.py": "",
        "untyped.py": "",
        "other.py": "",
        "package/__init__.py": "",
        "package/part.py": "from . import near\nfrom .deep import x\nfrom .near import y\n"
        "from ...... import z\n",
        "package/near.py": "import package.far, other\n",
        "package/far.py": "from package import constant",
        "package/deep.py": "",
        "package/unused.py": "",
    }.items():
        (tmp_path / name).write_text(text)
    files = trial_files(tmp_path / "mine.py", PACKAGE / "models/linear.py")
    names = {
        path.relative_to(tmp_path).as_posix() for path in files if path.is_relative_to(tmp_path)
    }
    package = {f"package/{name}.py" for name in ("__init__", "part", "near", "far", "deep")}
    assert names == {"mine.py", "helper.py", "untyped.py"} | package
    assert PACKAGE / "tasks/base.py" in files
    beside = {"helper", "json", "package", "typing", "untyped"}
    assert imported_names(tmp_path / "mine.py") == beside


def test_libraries_installed_beside_a_file_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "mine.py").write_text("import library")
    (folder / "library.py").write_text("")
    files = trial_files(folder / "mine.py", PACKAGE / "models/linear.py")
    assert folder / "library.py" not in files


def test_names_are_shown_relative_to_sweepd_or_to_the_grid(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    path = tmp_path / "tasks" / "mine.py"
    path.write_text("x = 1")
    files = [PACKAGE / "tasks/lis.py", path]
    assert list(fingerprint(files, tmp_path).files) == ["sweepd/tasks/lis.py", "tasks/mine.py"]
    assert list(fingerprint([path], tmp_path / "elsewhere").files) == [path.as_posix()]


def test_the_digest_does_not_depend_on_where_a_user_s_files_are(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text("import near")
        (tmp_path / name / "near.py").write_text("x = 1")
    a, b = (current_code(MINE, tmp_path / name) for name in ("a", "b"))
    assert a is not None
    assert a == b
    (tmp_path / "b" / "near.py").write_text("x = 2")
    changed = current_code(MINE, tmp_path / "b")
    assert changed is not None
    assert changed.digest != a.digest
    assert {name for name in a.files if a.files[name] != changed.files[name]} == {"near.py"}


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pack").mkdir()
    for name in ("mine.py", "pack/__init__.py", "pack/inner.py"):
        (tmp_path / name).write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert source("task", "lis", tmp_path) == PACKAGE / "tasks/lis.py"
    assert source("task", "mine.py:X", tmp_path) == tmp_path / "mine.py"
    assert source("task", "pack.inner:X", tmp_path) == tmp_path / "pack/inner.py"
    assert source("task", "pack:X", tmp_path) == tmp_path / "pack/__init__.py"
    assert source("task", "sweepd.tasks.lis:LIS", tmp_path) == PACKAGE / "tasks/lis.py"
    for name in (
        *("nothing", "../tasks/lis", "", ":", ":X", "none.py:X", "none:X", "pack.none:X"),
        *("mine.none:X", ".x:X", "a\0.py:X", "sys:X", 1000 * "x" + ".py:X", "pack..inner:X"),
    ):
        with pytest.raises(FileNotFoundError):
            source("task", name, tmp_path)
        assert current_code((("task", name), ("model", "linear")), tmp_path) is None


def test_broken_code(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    for text in ("x = 1\ny = (", "\0"):
        path.write_text(text)
        assert current_code(MINE, tmp_path) is None
        with pytest.raises(UserError, match=r"mine\.py"):
            fingerprint([path], tmp_path)


def test_where_sweepd_keeps_a_name_is_no_part_of_the_code(tmp_path: Path) -> None:
    """Moving a function of ours from one file to another must not make results look outdated."""
    body = "\nclass Mine(Task):\n    n: int\n"
    written = digest(tmp_path, "from sweepd.tasks.base import Split, Task\n" + body)
    moved = "from sweepd.tasks.elsewhere import Task\nfrom sweepd.a import Split"
    assert digest(tmp_path, moved + body) == written
    assert digest(tmp_path, "from sweepd.tasks.base import Split, LIS as Task\n" + body) != written
    assert digest(tmp_path, "from elsewhere.tasks.base import Split, Task\n" + body) != written


def test_the_order_of_files_is_no_part_of_the_code(tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for number, file in enumerate(files):
        file.write_text(f"x = {number}\n")
    assert fingerprint(files, tmp_path).digest == fingerprint(files[::-1], tmp_path).digest
