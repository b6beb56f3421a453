"""A user's file as a module: imported under a name of its own, and again when it has changed. Also
where in such a file an error came from, and what to do about it."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import sysconfig
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from sweepd.errors import UserError
from sweepd.grid import fingerprint
from sweepd.grid.fingerprint import INSTALLED, PACKAGE

MOST_TOLD, MOST_KNOWN = 500, 150
"""The most characters of an error that are shown, and those of one that has advice."""
LIBRARIES = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), str(PACKAGE), "<")
"""The beginnings of the paths of files that are not the user's own. They belong to Python, to its
libraries or to sweepd, or are no files, such as `<string>`."""

SIGNATURES = {
    "build": "self, vocab, L, capacity, generator",
    "forward": "self, tokens",
    "draw": "self, rng",
    "start": "self, seed, device",
    "advance": "self",
    "save": "self",
    "load": "self, data",
}
"""The parameters with which sweepd calls the methods of a user's class."""
WRONG_CALL = r"\(\) (?:takes|missing|got an unexpected)"
"""A pattern of what Python says after the name of a function that was called with the wrong
arguments."""
REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"index out of range in self|index out of bounds|bounds for dimension|device-side assert",
        "an embedding was asked for a row that it lacks: give the tokens' one `vocab` rows and the "
        "positions' one `capacity`",
    ),
    (
        r"backward through the graph a second time|modified by an inplace operation",
        "a tensor of an earlier call is used again: keep nothing on `self` in `forward`, or "
        "detach it",
    ),
    (
        r"does not require grad",
        "no gradient reaches the weights: leave out .detach(), .item(), .numpy() and "
        "torch.no_grad() in `forward`",
    ),
    (r"before Module.__init__\(\)", "call `super().__init__()` first in the module's `__init__`"),
    (
        r"shapes cannot be multiplied|must match the size|input.size\(-1\)|"
        r"normalized_shape|not broadcastable",
        "the sizes of two layers do not fit: compare what the one gives with what the other takes",
    ),
    (
        r"cannot assign to field",
        "the dataclass is frozen: keep the value in a local variable, or compute it in a property",
    ),
    *(
        (rf"\b{name}{WRONG_CALL}", f"define it as `{name}({parameters})`")
        for name, parameters in SIGNATURES.items()
    ),
    (r"non-frozen dataclass", "write @dataclass(frozen=True)"),
    (
        r"'sweepd\.grid\.|beyond top-level package",
        "a file that a grid names by its path is in no package: write `from helper import …` for a "
        "file beside it, or name the class as `package.module:Name`, with the folder that has the "
        "package in PYTHONPATH",
    ),
    (
        r"Sparse(?:CPU|CUDA)|sparse gradients",
        "the optimizer takes dense gradients: leave sparse=True out",
    ),
    (
        r"uninitialized parameter",
        "say how large each layer is, as nn.Linear does: nn.LazyLinear and its like know it only "
        "after a first row",
    ),
    (r"is not a package", "a file beside yours has the name of a library: rename it"),
    (r"No module named", "install it where sweepd is installed, on a cluster on each node"),
    (r"No such file or directory", "name data by an absolute path, which is right on every node"),
    (
        r"not compiled with CUDA|No CUDA GPUs|Found no NVIDIA driver",
        "use the `device` that `start` is given, or that of the inputs of `forward`",
    ),
    (
        r"mutable default .* for field",
        "a field is a number, a text or a bool; what is none, as `metrics` or `vocab`, has no type",
    ),
    (r"on the same device|found at least two devices", "make new tensors with `device=x.device`"),
    (r"too few distinct inputs", "draw more varied problems, or choose a larger setting"),
    (r"no entry of its vocab", "add the token to `vocab`, or write it as it stands there"),
    (
        r"_length is \d+",
        "let prompt_length, chain_length and answer_length say the most that `draw` gives",
    ),
    (r"at most length = ", "let `length` say the most that `draw` gives, and give a target or None "
     "for each input"),
)  # fmt: skip
"""Pairs of a pattern and advice. The advice tells users what to do about an error whose text
matches the pattern."""


def module_of(where: str, path: Path) -> ModuleType:
    """Returns the module of a user's class, whose file is `path`. Raises UserError if it cannot be
    imported."""
    with _readable_errors(path), undisturbed():
        _forget_edited(path)
        return _load(where, path) if where.endswith(".py") else importlib.import_module(where)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within this block user code runs. What it, or a process that it starts, prints meanwhile goes
    to stderr: it must not stand among rows that a command prints as JSON or CSV. The current folder
    and the words of the command are afterwards as they were."""
    here, words = os.open(".", getattr(os, "O_PATH", os.O_RDONLY)), sys.argv
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if sys.__stdout__:  # to which user code may have written
            sys.__stdout__.flush()
        os.dup2(out, 1)
        os.fchdir(here)
        os.close(out)
        os.close(here)
        sys.argv = words


def _forget_edited(path: Path) -> None:
    """Has Python import anew what a user's file runs of theirs, where any of it has changed since
    it was imported."""
    files = fingerprint.trial_files(path)
    now = {str(f): f.read_bytes() for f in files if not f.is_relative_to(PACKAGE)}
    if any(_read.get(file, data) != data for file, data in now.items()):
        importlib.invalidate_caches()
        for name, module in list(sys.modules.items()):
            if name != "__main__" and getattr(module, "__file__", None) in now:
                del sys.modules[name]
    _read.update(now)


def own_classes(module: ModuleType, root: type) -> str:
    """Returns the names of the classes of a kind that a module itself defines, as one text."""
    classes = [one for one in vars(module).values() if isinstance(one, type)]
    own = [one for one in classes if issubclass(one, root) and one.__module__ == module.__name__]
    return ", ".join(one.__name__ for one in own) or "none"


def _load(where: str, path: Path) -> ModuleType:
    """Runs a user's file as a module and returns it. `where` is how a grid writes its path.

    The module goes by `where`, so that what a trial pickles can be read after an edit, after the
    grid's folder has moved, and in processes that user code starts. A second file of this name in
    one process gets another. As for a script, files beside it can be imported.
    """
    key = re.sub(r"\W", "_", path.stem)
    if Path(where).parent != Path():
        key += "_" + hashlib.sha256(os.path.normpath(where).encode()).hexdigest()[:12]
    if _loaded.get(key, (path,))[0] != path:
        key += "_" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    key = next((one for one, (file, _) in _loaded.items() if file == path), key)
    name, now = USERS + key, (path, path.read_bytes())
    if _loaded.get(key) == now and name in sys.modules:
        return sys.modules[name]
    _find_neighbours(where, path)
    os.environ[FOR_CHILDREN] = json.dumps(
        {
            "files": {**{one: str(file) for one, (file, _) in _loaded.items()}, key: str(path)},
            "beside": {one: [folder, sorted(names)] for one, (folder, names) in _beside.items()},
        }
    )
    spec = importlib.util.spec_from_file_location(name, path, loader=_Anew(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    folders, modules = {*sys.path} - {str(path.parent)}, {*sys.modules}
    try:
        spec.loader.exec_module(module)
        for one in {*sys.modules} - modules:
            file_of_it = getattr(sys.modules[one], "__file__", None)
            if file_of_it and not one.startswith(USERS) and is_own_file(file_of_it):
                _public[one] = file_of_it
        _look_into(path, [folder for folder in sys.path if folder not in folders])
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    _loaded[key] = now
    return module


__path__: list[str] = []
"""Makes this module a package, of users' files. `_Finder` finds its modules."""
USERS = f"{__name__}."
"""The beginning of the name of each module that is a user's file."""
FOR_CHILDREN = "SWEEPD_USER_FILES"
"""The environment variable that tells processes that user code starts where its files are."""
_loaded: dict[str, tuple[Path, bytes]] = {}
"""The path and the content of each file that was loaded, by the last part of its module's name."""
_read: dict[str, bytes] = {}
"""The content of each file of the user's that was imported, as it was then."""
_public: dict[str, str] = {}
"""The file of each module that users' files have loaded otherwise, as by a computed name."""
_beside: dict[str, tuple[str, set[str]]] = {}
"""Each folder of users' files, by the name of the package that it is here, with the names that
these files import from it. So two folders can have helpers of one name in one process."""


def _folders() -> dict[str, tuple[str, set[str]]]:
    """Returns `_beside`, with what the process that started this one had."""
    told = json.loads(os.environ.get(FOR_CHILDREN, "{}")).get("beside", {})
    return {**{key: (folder, {*names}) for key, (folder, names) in told.items()}, **_beside}


class _Finder:
    """Finds users' files, in processes that user code starts too, and what they import from beside
    them."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: object = None) -> ModuleSpec | None:
        if not _beside and FOR_CHILDREN not in os.environ:
            return None  # each import of the process asks, and nothing of the user's is loaded yet
        folders = _folders()
        if name.startswith(USERS):
            key, _, below = name[len(USERS) :].partition(".")
            if key not in folders:
                file = json.loads(os.environ.get(FOR_CHILDREN, "{}")).get("files", {}).get(key)
                loader = _Anew(name, file)
                return file and importlib.util.spec_from_file_location(name, file, loader=loader)
            if not below:
                spec = ModuleSpec(name, None, is_package=True)
                spec.submodule_search_locations = [folders[key][0]]
                return spec
            found = PathFinder.find_spec(name, path)
            if found and found.origin and isinstance(found.loader, SourceFileLoader):
                found.loader = _Anew(name, found.origin)
            return found
        # Only an import whose name is computed comes here: `_Anew` writes out all others.
        first = name.partition(".")[0]
        match [key for key, (_, names) in folders.items() if first in names]:
            case []:
                return None
            case [key]:
                private = f"{USERS}{key}.{name}"
                if importlib.util.find_spec(private) is None:
                    return None
                return ModuleSpec(name, _Alias(importlib.import_module(private)))
            case keys:
                where = " and ".join(folders[key][0] for key in keys)
                raise ImportError(
                    f"{name} is beside files of the user's in {where}: rename one, or write "
                    f"`import {name}`, which reads that beside the file"
                )


sys.meta_path.insert(0, _Finder)


class _Alias(Loader):
    """Gives a module that is loaded already a second name."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _Anew(SourceFileLoader):
    """Compiles a file each time, with the modules beside it written out as those of its folder's
    package. Python's cache of compiled files misses an edit that is made within the same second and
    keeps the file's size."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        folders, key = _folders(), fullname[len(USERS) :].partition(".")[0]
        if key not in folders:  # a file that a grid names, or one that runs it
            parent = str(Path(self.path).parent)
            key = next((one for one, (folder, _) in folders.items() if folder == parent), key)
        names = folders[key][1] if key in folders else set()
        tree = ast.fix_missing_locations(_WrittenOut(USERS + key, names).visit(tree))
        compiled: CodeType = compile(tree, self.path, "exec", dont_inherit=True)
        return compiled


class _WrittenOut(ast.NodeTransformer):
    """Turns `import tools` into `import package.tools as tools`, where `tools` is among `names`,
    and so all statements and calls that import."""

    def __init__(self, package: str, names: set[str]) -> None:
        self.package, self.names = package, names

    def written_out(self, name: str) -> str:
        return f"{self.package}.{name}" if name.partition(".")[0] in self.names else name

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        each: list[ast.alias] = []
        for alias in node.names:
            full, first = self.written_out(alias.name), alias.name.partition(".")[0]
            if full == alias.name:
                each.append(alias)
                continue
            each.append(ast.alias(full, alias.asname or first))
            if not alias.asname and first != alias.name:  # `import a.b` makes `a` known
                each.append(ast.alias(self.written_out(first), first))
        return [ast.copy_location(ast.Import([alias]), node) for alias in each]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if not node.level and node.module:
            node.module = self.written_out(node.module)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(
                ast.Name("import_module") | ast.Attribute(attr="import_module"),
                [ast.Constant(str() as name) as constant, *_],
            ):
                constant.value = self.written_out(name)
        return self.generic_visit(node)


def _find_neighbours(where: str, path: Path) -> None:
    """Notes which names the file at `path` imports from beside it, itself or by its helpers. Raises
    UserError for a name that Python or an installed library has: libraries would read the helper,
    or the file the library."""
    folder = str(path.parent)
    key = "beside_" + hashlib.sha256(os.path.normpath(Path(where).parent).encode()).hexdigest()[:12]
    if _beside.get(key, (folder,))[0] != folder:
        key = "beside_" + hashlib.sha256(folder.encode()).hexdigest()[:12]
    key = next((one for one, (known, _) in _beside.items() if known == folder), key)
    names = fingerprint.imported_names(path)
    runs = {name: path.parent / f"{name}.py" for name in names}
    for file in fingerprint.trial_files(path):
        if file != path and file.is_relative_to(path.parent):
            parts = file.relative_to(path.parent).with_suffix("").parts
            runs[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    beside = _beside.setdefault(key, (folder, set()))[1]
    for name, file in runs.items():
        if not file.is_file():
            continue
        first = name.partition(".")[0]
        libraries = [folder for folder in sys.path if not is_own_file(folder)]
        found = PathFinder.find_spec(first, libraries)
        if first in sys.builtin_module_names:
            raise _mistaken(path, name, file, "built in", first)
        if found and found.origin and not found.origin.startswith(folder):
            raise _mistaken(path, name, file, "installed", found.origin)
        beside.add(first)
        # A second folder may have a module of a name that was found for the first.
        for one, module in list(sys.modules.items()):
            if one.partition(".")[0] == first and getattr(module, "__name__", one) != one:
                del sys.modules[one]


def _look_into(path: Path, folders: list[str]) -> None:
    """Raises UserError where the folder of a user's file, or one that it has added to Python's
    path, has a module of a name that another has taken by such a path or a computed name."""
    for name, other in _public.items():
        there = PathFinder.find_spec(name, folders) if "." not in name else None
        if not (there and there.origin and Path(other).is_file()):
            continue
        if not Path(there.origin).samefile(other):
            raise _mistaken(path, name, Path(there.origin), "loaded already", other)


def _mistaken(path: Path, name: str, file: Path, is_there: str, other: str) -> UserError:
    return UserError(
        f"{path}: `import {name}` would not read {file}, or libraries would: another module of "
        f"this name is {is_there} ({other}); rename the file or its folder"
    )


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    """Turns what a user's file raises while it is imported in the block into a UserError with its
    line in the file."""
    try:
        yield
    except UserError:
        raise
    except SyntaxError as error:  # str(error) would name the file and line twice
        raise UserError(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)
        ]
        raise UserError(f"{path}:{(lines or [1])[-1]}: {error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """Returns an error in one line, with what to do about it where that is known."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # a user's class may do anything
        text = "(its text can't be told)"
    text = re.sub(
        rf"{USERS}beside_\w{{12}}\.", "", text
    )  # a helper, by the name in the user's file
    text = f"{type(error).__name__}: {text}"[:MOST_TOLD]
    if do := advice(text):
        return f"{text if len(text) <= MOST_KNOWN else text[:MOST_KNOWN] + '…'}; {do}"
    return text


def advice(text: str) -> str:
    """Returns what to do about an error with this text, or "" where that is not known."""
    return next((do for sign, do in REMEDIES if re.search(sign, text)), "")


def raised_at(error: BaseException) -> traceback.FrameSummary | None:
    """Returns the innermost frame in the user's own files in which an error, or the one that caused
    it, was raised, or through which it came. Returns None if it passed through none of them."""
    cause: BaseException | None = error
    while cause:
        frames = traceback.extract_tb(cause.__traceback__)
        if own := [frame for frame in frames if is_own_file(frame.filename)]:
            return own[-1]
        cause = cause.__cause__
    return None


def is_own_file(path: str) -> bool:
    """Returns whether a file belongs neither to sweepd nor to a library."""
    return not (path.startswith(LIBRARIES) or INSTALLED.intersection(Path(path).parts))


def place_of_definition(defined: Any) -> str:
    """Returns the file and line of the statement that defines a class or a function. Returns ""
    for what no file defines."""
    try:
        defined = inspect.unwrap(defined)  # a method of a model is wrapped by its base class
        lines, first = inspect.getsourcelines(defined)
        [statement] = ast.parse(textwrap.dedent("".join(lines))).body
        # `first` is the line of a decorator, if there is one, and not that of the statement.
        return f"{inspect.getsourcefile(defined)}:{first + statement.lineno - 1}"
    except (OSError, TypeError, SyntaxError, ValueError):  # such as a class that `type` made
        return ""
