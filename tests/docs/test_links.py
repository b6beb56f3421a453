"""What the pages point to exists: links, headings, paths of the repository, and the tree in README.
The files that say who may use and cite sweepd agree with the package."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from pages import MANUAL, PAGES, ROOT, SKILL, blocks, commands, name, prose, spans

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
"""Of a page, or of a picture."""
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")
SOURCE = re.compile(r"[\w-]+\.(?:py|md|toml)")
"""A file without its folder."""
PLACEHOLDER = "NAME"
BEGINNING = 6
"""Lines of a page within which its example begins."""

each_page = pytest.mark.parametrize("page", PAGES, ids=name)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"(?m)^#+ (.+)$", prose(page))}


def words(page: Path) -> set[str]:
    """The words between backticks and those of commands, without what surrounds a path."""
    texts = (*spans(page), *(shown.text.partition(" # ")[0] for shown in commands(page)))
    raw = {word for text in texts for word in text.split()}
    return {word.strip("`'\"(),;").partition("::")[0] for word in raw}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name(page)}: {target} does not exist"
        if anchor:
            assert anchor in anchors(there), f"{name(page)}: no heading for {target}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=name)
def test_a_page_begins_with_what_it_is_about(page: Path) -> None:
    """A page begins with a picture or an example, or has one after its first paragraph. The tour
    leads to the page."""
    begins = page.read_text().splitlines()[:BEGINNING]
    assert any(line.startswith(("```", "![")) for line in begins), f"{name(page)}: no example"
    tour = LINK.findall(prose(ROOT / "docs" / "tour.md"))
    assert page.name in tour or page.stem == "tour", f"{name(page)}: docs/tour.md has no link to it"


@each_page
def test_named_tests_exist(page: Path) -> None:
    """Pages name a test as `folder/test_file.py::test_name`, below tests/."""
    for file, test in re.findall(r"`([\w./]+\.py)::(\w+)`", page.read_text()):
        defined = re.search(rf"(?m)^def {test}\(", (ROOT / "tests" / file).read_text())
        assert defined, f"{name(page)}: {file} has no {test}"


@each_page
def test_paths_exist(page: Path) -> None:
    """A path belongs to the repository if its first folder exists: beside the page, at the top, or
    below src/sweepd/ or tests/. Then the whole path must exist there."""
    for word in words(page):
        bases = (page.parent, ROOT, ROOT / "src" / "sweepd", ROOT / "tests")
        if PLACEHOLDER in word:
            continue
        if PATH.fullmatch(word):
            first = word.split("/")[0]
            near = [base for base in bases if (base / first).exists() and first.strip(".")]
            if near:
                assert any((base / word).exists() for base in near), f"{name(page)}: {word}"
        elif SOURCE.fullmatch(word):
            assert list(ROOT.glob(word)) or list(files_named(word)), f"{name(page)}: {word}"


def files_named(file: str) -> set[Path]:
    folders = ("src", "tests", "tasks", "models", "benchmarks", "docs", "results")
    return {path for folder in folders for path in (ROOT / folder).rglob(file)}


def test_the_tree_in_the_readme_is_the_tree() -> None:
    """The tree shows every folder, with a line about it, and no folder that does not exist."""
    [tree] = [b for b in blocks(ROOT / "README.md") if b.lines[0].startswith("docs/")]
    top = {line.split()[0] for line in tree.lines if not line.startswith(" ")}
    rooms = {line.split()[0] for line in tree.lines if line.startswith("  ")}
    assert all(len(line.split()) > 1 for line in tree.lines)
    packages = {path.parent.name for path in (ROOT / "src" / "sweepd").glob("*/__init__.py")}
    assert rooms == {f"{package}/" for package in packages - {"tasks", "models"}}
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and any(p.rglob("*.*"))}
    kept = {name for name in folders if not name.startswith(".") and not is_ignored(name)}
    assert top == {f"{folder}/" if folder != "src" else "src/sweepd/" for folder in kept | {"src"}}


def is_ignored(folder: str) -> bool:
    patterns = (ROOT / ".gitignore").read_text().split()
    return any(Path(folder).match(pattern.rstrip("/")) for pattern in patterns)


def test_a_grid_in_a_page_is_the_file_that_it_names() -> None:
    shown = 0
    for block in (block for page in MANUAL for block in blocks(page) if block.language == "yaml"):
        path = ROOT / block.lines[0].removeprefix("# ")
        if path.is_file():
            shown += 1
            text = "\n".join(block.lines)
            assert yaml.safe_load(text) == yaml.safe_load(path.read_text()), name(block.page)
    assert shown


def test_every_page_is_listed_in_the_readme() -> None:
    listed = {target.partition("#")[0] for target in LINK.findall(prose(ROOT / "README.md"))}
    assert {name(page) for page in MANUAL if page != SKILL} - {"README.md"} <= listed


def test_licence_citation_and_changelog_agree_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_bytes()
    assert hashlib.md5(text).hexdigest() == "3b83ef96387f14655fc854ddc3c6bd57", "the known text"
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert all(author.keys() == {"name"} for author in cited["authors"])
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    headings = re.findall(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())
    assert headings[0] == project["version"].partition(".dev")[0]
