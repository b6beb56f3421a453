"""A user's file as a module: imported under a name of its own, and again when it has changed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from sweepd.errors import UserError
from sweepd.grid import fingerprint
from sweepd.grid.blame import told


def module_of(where: str, path: Path) -> ModuleType:
    """Returns the module of a user's class, whose file is `path`. Raises UserError if it cannot be
    imported."""
    with _readable_errors(path):
        return _load(path) if where.endswith(".py") else importlib.import_module(where)


def own_classes(module: ModuleType, root: type) -> str:
    """Returns the names of the classes of a kind that a module itself defines, as one text."""
    classes = [one for one in vars(module).values() if isinstance(one, type)]
    own = [one for one in classes if issubclass(one, root) and one.__module__ == module.__name__]
    return ", ".join(one.__name__ for one in own) or "none"


def _load(path: Path) -> ModuleType:
    """Runs a user's file as a module and returns it. The module has a name of its own, which is the
    same in every process that has this file.

    As for a script, files beside it can be imported while it runs.
    """
    content = path.read_bytes()
    digest = hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()[:12]
    name = f"sweepd_user_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    _refuse_strangers(path)
    spec = importlib.util.spec_from_file_location(name, path, loader=_Anew(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


class _Anew(SourceFileLoader):
    """Compiles a file each time. Python's cache of compiled files misses an edit that is made
    within the same second and keeps the file's size."""

    def get_code(self, fullname: str) -> CodeType:
        compiled: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return compiled


def _refuse_strangers(path: Path) -> None:
    """Raises UserError where a module that is loaded already would shadow a file of the same name
    beside `path`."""
    for name in fingerprint.imported_names(path):
        beside, loaded = path.parent / f"{name}.py", sys.modules.get(name)
        if loaded and beside.is_file():
            file = getattr(loaded, "__file__", None)
            if file is None or not beside.samefile(file):
                raise UserError(
                    f"{path}: `import {name}` would not read {beside}: another module of this "
                    f"name is loaded already ({file or 'built in'}); rename the file"
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
        raise UserError(f"{path}:{_line(error, path)}: {told(error)}") from error


def _line(error: BaseException, path: Path) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 1 for f in reversed(frames) if f.filename == str(path)), 1)
