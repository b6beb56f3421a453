"""Which code a trial runs, and a fingerprint of it.

A file of ours counts by its `VERSION`, which says what it does; tests/golden holds it to that. A
user's file counts by its syntax tree without comments, docstrings and formatting, the same on every
Python from 3.11 on, and by the versions of what it imports from sweepd. Files are read and parsed,
never imported: `sweepd query` asks for the current code without torch.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from sweepd.errors import UserError

Kind = Literal["task", "model", "loop"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Class = tuple[Kind, str]
"""The kind and the name of a class that a trial runs, as a grid writes it: `("task", "lis")`."""

PACKAGE = Path(__file__).parents[1]
FOLDERS: dict[Kind, Path] = {"task": PACKAGE / "tasks", "model": PACKAGE / "models"}
"""The folders of the classes that come with sweepd. No loops come with it."""
TRAINING = PACKAGE / "trial/training.py"
LOOP, PROGRAM = (TRAINING.with_name(name) for name in ("own_loop.py", "program.py"))
"""These state the version of what runs trials: of tasks and models, of loops, of programs."""
OWNERS = {PACKAGE / "trial": TRAINING} | {one: one / "base.py" for one in FOLDERS.values()}
"""By folder, the file whose version is that of all files there that state none."""
INSTALLED = {"site-packages", "dist-packages"}
LOCKS = ("pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock", "pixi.lock", "requirements.txt")
"""The files that say which libraries a program uses. Those beside its files are part of it."""
MADE = {".git", ".hg", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
"""The names of what is no file of a program in a folder of `files`: it is made by tools."""
FIELD = re.compile(r"\{\w+\}")
OF_THE_GRID = "the grid's `program`"
"""The name of a program's block among the files of its code."""
MOST_NAME = 200
"""The longest text that is taken for the name of a file."""
MOST_UNKNOWN = 5
"""The most names of a file that a sentence on what is not known tells."""
MOST_BYTES = 2**26
"""The largest size of a file of a program, in bytes. A larger file holds data."""
Parsed = tuple[str, tuple[tuple[int, str, tuple[str, ...]], ...]]


@dataclass(frozen=True)
class Code:
    """The code that a trial runs. digest: 12 hex digits of all of it. files: for each file, by the
    name that people see, 12 hex digits of its content, or its version if it is one of ours."""

    digest: str
    files: dict[str, str]


@functools.cache
def _parsed(text: str) -> Parsed:
    """Returns the fingerprint and the imports of a source text. Raises SyntaxError or ValueError
    for what is no Python."""
    tree = ast.parse(text)
    # Each name that the file imports from sweepd, with its alias in the file.
    bound = {
        f" {alias.name.rpartition('.')[2]} as {alias.asname}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_from_sweepd(node)
        for alias in node.names
    }
    return _hex("".join([*_canonical(tree), *sorted(bound)])), tuple(_imports(tree))


def source(kind: Kind, name: str, base: Path) -> Path:
    """Returns the file that defines a task, a model or a loop. It is found without importing it.

    `lis` is one of ours. `path/to/file.py:Name` is relative to `base`. `package.module:Name` is
    looked for as Python would. Of a program it is its first file, or `base` if it names none.
    Raises FileNotFoundError if there is no such file, or not all of a program's.
    """
    if is_program(name):
        return next(iter(program_files(name, base).values()), base)
    where, colon, _ = name.rpartition(":")
    path: Path | None = None
    if where.endswith(".py"):
        path = (base / where).absolute()
    elif colon:
        path = _module_source(where)
    elif kind in FOLDERS and name.isidentifier() and not name.startswith("_"):
        path = FOLDERS[kind] / f"{name}.py"
    try:
        if path and path.is_file():
            return path
    except OSError:  # a name that is too long
        pass
    raise FileNotFoundError(f"no file defines {name}")


def trial_files(*sources: Path) -> list[Path]:
    """Returns the files that classes run, in the order in which imports reach them.

    The search begins with the `sources` of the classes. It follows imports to every file of the
    user's own package, beside the user's file, or of sweepd, whose own imports it does not follow.
    Installed libraries are not part of it.
    """
    waiting, found = [*sources], dict[Path, None]()
    while waiting:
        path = waiting.pop(0)
        if path not in found:
            found[path] = None
            waiting += () if path.is_relative_to(PACKAGE) else _imported_files(path)
    return list(found)


def fingerprint(files: Iterable[Path], base: Path) -> Code:
    """Returns the code of `files`, in any order. Ours are named `sweepd/…`, others from `base` if
    they lie there. Raises UserError for what cannot be read or is not Python."""
    versions, digests = dict[str, str](), dict[str, str]()
    for path in files:
        if path.is_relative_to(PACKAGE):
            versions |= stated_versions(path)
        else:
            digests[path.as_posix().removeprefix(f"{base.absolute()}/")] = _parse(path)[0]
    counted = [*map(" ".join, versions.items()), *digests.values()]
    return Code(_hex(" ".join(sorted(counted))), {**versions, **digests})


def is_program(where: str) -> bool:
    """Returns whether a loop is a program (`grid.program`), by what says where it is."""
    return where.startswith("{")


def called(where: str) -> str:
    """Returns what a message calls a class or a program, by what says where it is."""
    return str(json.loads(where)["program"]) if is_program(where) else where


def program_files(where: str, base: Path) -> dict[str, Path]:
    """Returns the files of a program by their paths from `base`: those that its command and its
    `files` name, what Python files and shell scripts among them run, and LOCKS beside any of these.
    Where a field stands in a name, it is each file that such a name may mean. Raises
    FileNotFoundError for what is not there, and UserError for what is no Python."""
    block = json.loads(where)
    named = [*_files_of_command(shlex.split(block["program"]), base)]
    for path in (base / name for name in block.get("files", ())):
        if base.is_relative_to(os.path.normpath(path)):
            raise UserError(f"{path} has all of the grid's folder; name what the program reads")
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if not (file.is_dir() or MADE.intersection(file.relative_to(path).parts)):
                named.append(file)
    found: dict[Path, None] = {}
    waiting = [Path(os.path.normpath(path)) for path in named]
    for path in waiting:
        if not path.is_file():
            raise FileNotFoundError(f"there is no {path}")
    while waiting:
        path = waiting.pop(0)
        if path not in found and not path.is_relative_to(PACKAGE):
            found[path] = None
            if path.is_symlink():  # Python imports what lies beside the file that it leads to
                waiting.append(path.resolve())
            if path.suffix == ".py":
                waiting += _run_by_python(path, base)
            elif is_shell_script(path):
                words = re.split(r"[\s;&|()<>=\"'`]+", path.read_text(errors="replace"))
                waiting += _files_of_command(words, base)
    folders = dict.fromkeys(folder for path in named for folder in (Path(path).parent, base))
    locks = [folder / lock for folder in folders for lock in LOCKS]
    files = [*found, *filter(Path.is_file, map(Path, map(os.path.normpath, locks)))]
    return {Path(os.path.relpath(file, base)).as_posix(): file for file in files}


def _files_of_command(words: Iterable[str], base: Path) -> Iterator[Path]:
    """Yields the files that the words of a command name by relative paths: as a word, behind `=`,
    as the module of `python -m`, or with fields in braces, which stand for any text."""
    before = ""
    for word in words:
        if before == "-m":
            for place in ("", "src/"):
                target = f"{base}/{place}{word.replace('.', '/')}"
                if module := _file_of(target):
                    yield Path(module)
                if (main := Path(target, "__main__.py")).is_file():
                    yield main
        before = word
        for text in {word: None, word.partition("=")[2]: None}:
            pattern = FIELD.sub("*", text)
            if text[:1] in ("/", "") or len(text) > MOST_NAME:
                continue
            if pattern == text:
                if (base / text).is_file():
                    yield base / text
            elif _is_pattern(pattern):
                yield from (p for p in sorted(base.glob(os.path.normpath(pattern))) if p.is_file())


def _run_by_python(path: Path, base: Path) -> Iterator[Path]:
    """Yields the files of the user's that a Python file of a program imports: from its own folder,
    from the program's, and from the root of its repository, each with what makes a package of the
    folders above it."""
    root = next((one for one in (base, *base.parents) if (one / ".git").exists()), base)
    roots = [path.parent, base, base / "src", root, root / "src"]
    for level, module, names in _parse(path)[1]:
        parts = module.split(".") if module else []
        starts = [path.parents[min(level, len(path.parents)) - 1]] if level else roots
        for start in starts:
            target = "/".join([str(start), *parts])
            files = [file for name in names if (file := _file_of(f"{target}/{name}"))]
            files += filter(None, [_file_of(target) if parts or level else None])
            above = (
                "/".join([str(start), *parts[:n], "__init__.py"]) for n in range(1, len(parts))
            )
            if files:
                yield from map(Path, files)
                yield from map(Path, filter(os.path.isfile, above))
                break
    folder = path.parent
    while (folder / "__init__.py").is_file():
        yield folder / "__init__.py"
        folder = folder.parent


def is_shell_script(path: Path) -> bool:
    """Returns whether a file is a script of a shell."""
    with path.open("rb") as file:
        first = file.readline(MOST_NAME)
    return (first[:2] == b"#!" and b"sh" in first) or path.suffix in (".sh", ".bash")


def unknown_files(where: str, base: Path) -> Iterator[str]:
    """Yields sentences on what the result of a program may depend on although nobody can tell: what
    its shell scripts start, and what its Python files name. None where `files` is written."""
    block = json.loads(where)
    if "files" in block:
        return
    known = program_files(where, base)
    for word in shlex.split(block["program"]):
        text = word.partition("=")[2] or word
        if FIELD.search(text) and "." in text and not _is_pattern(FIELD.sub("*", text)):
            yield f"{word} is a file that a field alone names: write those it may be in `files:`"
    for name, path in known.items():
        if is_shell_script(path):
            yield f"{name} starts other programs: name them in `files:`, and what they read"
        elif path.suffix == ".py":
            nodes = ast.walk(ast.parse(path.read_bytes()))
            texts = {n.value for n in nodes if isinstance(n, ast.Constant) and type(n.value) is str}
            named = (_named(text, folder) for text in texts for folder in (base, path.parent))
            inside = sorted({os.path.relpath(there, base) for there in named if there})
            have = tuple(known)
            others = [n for n in inside if n not in known and not _has(n, have) and n not in MADE]
            if others := others[:MOST_UNKNOWN]:
                yield (
                    f"{name} names {', '.join(others)}, which the identity of its trials leaves "
                    "out: if its result depends on that, name it in `files:`"
                )


def _has(folder: str, names: Iterable[str]) -> bool:
    return any(name.startswith(f"{folder}/") for name in names)


def _named(text: str, folder: Path) -> Path | None:
    """Returns what a text names by a relative path from a folder, if there is such a thing."""
    if not text.strip("./") or text[0] == "/" or len(text) > MOST_NAME or not text.isprintable():
        return None
    there = Path(os.path.normpath(folder / text))
    return there if there.exists() else None


def _is_pattern(text: str) -> bool:
    """Returns whether the name of a file says which it may be: `*.yaml` may be the grid, too."""
    return re.search(r"\w", text.rpartition(".")[0]) is not None


def trial_code(classes: Iterable[Class], base: Path) -> Code:
    """Returns the code that trials of a task and a model, or of a loop, run: of a program its block
    without its fields, and the content of its files. Raises FileNotFoundError as `source` does, and
    UserError as `fingerprint` does."""
    for _, where in classes:
        if not is_program(where):
            continue
        block = json.loads(where)
        for name in ("files", "keep", "in_place"):
            block.pop(name, None)
        digests = {**stated_versions(PROGRAM), OF_THE_GRID: _hex(json.dumps(block, sort_keys=True))}
        for name, path in program_files(where, base).items():
            if path.stat().st_size > MOST_BYTES:
                raise UserError(
                    f"{path}: more than {MOST_BYTES:,} bytes, of which results would keep a copy; "
                    "give the program its data by a field or an absolute path"
                )
            digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        return Code(_hex(json.dumps(digests, sort_keys=True)), digests)
    sources = {kind: source(kind, where, base) for kind, where in classes}
    runner = LOOP if "loop" in sources else TRAINING
    return fingerprint([runner, *trial_files(*sources.values())], base)


def current_code(classes: Iterable[Class], base: Path) -> Code | None:
    """Returns `trial_code`, or None where it cannot be told: a file has gone or is broken."""
    try:
        return trial_code(classes, base)
    except (FileNotFoundError, UserError):
        return None


def imported_names(path: Path) -> set[str]:
    """Returns the first part of the name of each module that a file imports absolutely."""
    return {name.partition(".")[0] for level, name, _ in _parse(path)[1] if not level}


@functools.cache
def stated_versions(path: Path) -> dict[str, str]:
    """Returns the version of what a file of ours does, by the name of the file that states it.
    Returns none of a file that has no part in what a trial comes to."""
    for file in (path, OWNERS.get(path.parent)):
        if file and (found := re.search(r"(?m)^VERSION = (\d+)$", file.read_text("utf-8"))):
            return {f"sweepd/{file.relative_to(PACKAGE).as_posix()}": found[1]}
    return {}


def _parse(path: Path) -> Parsed:
    """Returns the fingerprint and the imports of a file."""
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise UserError(f"{path}:{error.lineno}: {error.msg}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as Python: {error}") from None


def _module_source(name: str) -> Path | None:
    """Returns the source file of a dotted module, or None, without running the packages' code."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first) if first else None
        for part in rest:
            if spec is None or spec.submodule_search_locations is None:
                return None
            name = f"{spec.name}.{part}"
            spec = importlib.machinery.PathFinder.find_spec(name, spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yields (level, module, names) of each import that runs, so none that is for type checkers
    alone. `from ..a import b` is (2, "a", ("b",)), and `import_module("a")` is (0, "a", ())."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        match waiting.pop(0):
            case ast.Import(names=names):
                yield from ((0, alias.name, ()) for alias in names)
            case ast.ImportFrom(level=level, module=module, names=names):
                yield level, module or "", tuple(alias.name for alias in names)
            case (
                ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")) as node
            ):
                waiting += node.orelse
            case ast.Call(
                ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                [ast.Constant(str() as module), *_],
            ) as node if module:
                name = module.lstrip(".")
                yield len(module) - len(name), name, ()
                waiting += ast.iter_child_nodes(node)
            case node:
                waiting += ast.iter_child_nodes(node)


def _imported_files(path: Path) -> Iterator[Path]:
    """Yields the files that `path` imports beside it, from its own package, or from sweepd. With a
    task or a model of ours comes the base that it is written with."""
    package, root = path.parent, path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    own = package.relative_to(root).parts[:1]
    for level, module, names in _parse(path)[1]:
        parts = module.split(".") if module else []
        if level:
            start = path.parents[min(level, len(path.parents)) - 1]
        elif parts[0] == PACKAGE.name:
            start = PACKAGE.parent
        elif parts[:1] == list(own) or (not own and root.name not in INSTALLED):
            start = root
        else:
            continue
        target = "/".join([str(start), *parts])
        submodules = [file for name in names if (file := _file_of(f"{target}/{name}"))]
        if len(submodules) < max(1, len(names)) and (file := _file_of(target)):
            submodules.append(file)
        for found in map(Path, submodules):
            yield found
            if found.parent in FOLDERS.values():
                yield OWNERS[found.parent]


def _file_of(target: str) -> str | None:
    """Returns the source of the module at a path without suffix, or None. Paths are texts here,
    since hundreds are looked for, and to make a Path takes longer than to look."""
    candidates = (f"{target}.py", f"{target}/__init__.py")
    return next(filter(os.path.isfile, candidates), None)


def _canonical(node: ast.AST) -> Iterator[str]:
    """Yields a syntax tree as text, without what has no effect or differs between Pythons."""
    yield f"({type(node).__name__}"
    for name in sorted(node._fields):
        value = getattr(node, name, None)
        if value is None and not isinstance(node, ast.Constant):
            continue
        if value == [] or name in ("ctx", "kind", "type_comment", "type_ignores"):
            continue
        yield f" {name}="
        if isinstance(value, list):
            for item in _joined(value) if isinstance(node, ast.JoinedStr) else value:
                match item:
                    case ast.Expr(value=ast.Constant(value=str())):
                        continue  # a docstring, or a text after a field
                    case ast.Import() | ast.ImportFrom() if _is_from_sweepd(item):
                        continue  # of which `_parsed` takes the names
                    case ast.If(test=ast.Name("TYPE_CHECKING"), orelse=[]):
                        continue  # what only a type checker reads
                yield from _canonical(item) if isinstance(item, ast.AST) else (ascii(item),)
                yield ","
        elif isinstance(value, ast.AST):
            yield from _canonical(value)
        else:
            yield f"{type(value).__name__} {value!a}"
    yield ")"


def _is_from_sweepd(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        modules = [node.module or ""] if not node.level else []
    else:
        modules = [alias.name for alias in node.names]
    firsts = {module.partition(".")[0] for module in modules}
    return firsts == {PACKAGE.name}


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """Returns the parts of an f-string with neighbouring texts put together. Versions of Python
    split these differently."""
    joined: list[ast.expr] = []
    for part in parts:
        match joined[-1:], part:
            case [ast.Constant(value=str(before))], ast.Constant(value=str(after)):
                joined[-1] = ast.Constant(before + after)
            case _:
                joined.append(part)
    return [part for part in joined if not (isinstance(part, ast.Constant) and part.value == "")]


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
