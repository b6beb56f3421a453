"""Stands in for the package wandb in a program that sweepd runs with `rows: {from: wandb}`.

`init`, `log`, `config` and `summary` work as far as numbers go, and write a line of JSON for each
call. All else is there, takes anything and does nothing. Nothing leaves the machine. This file
needs Python 3.8 and nothing else, since it runs in the program's own Python.
"""

import json
import os

__version__ = "0.99.0"
_step = 0
_held = {}


class Nothing:
    """Takes every call and gives itself. As text it is empty, and as a collection too."""

    def __init__(self, *arguments, **options):
        pass

    def __call__(self, *arguments, **options):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)

    def __getitem__(self, name):
        return self

    def __setitem__(self, name, value):
        pass

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __bool__(self):
        return True

    def __str__(self):
        return ""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class _Values(dict):
    """A config or a summary: its values are items and attributes."""

    def __init__(self, tell=None):
        super().__init__()
        object.__setattr__(self, "_tell", tell)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        if self._tell:
            self._tell({name: value})

    def update(self, values=(), allow_val_change=None, **more):
        for name, value in dict(values, **more).items():
            self[name] = value

    def setdefaults(self, values):
        for name, value in values.items():
            self.setdefault(name, value)

    def as_dict(self):
        return dict(self)


class Run(Nothing):
    """What `init` gives."""

    id = name = "sweepd"
    dir = "."
    project = entity = group = job_type = notes = url = path = ""
    resumed = disabled = offline = False

    @property
    def config(self):
        return config

    @property
    def summary(self):
        return summary

    @property
    def step(self):
        return _step

    def log(self, data, step=None, commit=None, sync=None):
        log(data, step, commit)


def _number(value):
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _numbers(values, before=""):
    numbers = {}
    for name, value in values.items():
        if isinstance(value, dict):
            numbers.update(_numbers(value, before + str(name) + "/"))
        elif not isinstance(value, (str, bytes)):
            number = _number(value)
            if number is not None:
                numbers[before + str(name)] = number
    return numbers


def _write(row):
    path = os.environ.get("SWEEPD_ROWS")
    if not path or os.environ.get("RANK", "0") != "0":  # of several processes the first one tells
        return
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, (json.dumps(row) + "\n").encode())  # at once: processes do not mix lines
    finally:
        os.close(file)


def _summarized(values):
    _write({"test": True, "_step": _step, **_numbers(values)})


config = _Values()
summary = _Values(_summarized)
run = None


def init(*arguments, config=None, **options):
    """Begins the run. config: its settings, of which nothing is told."""
    global run
    run = Run()
    if config:
        globals()["config"].update(vars(config) if hasattr(config, "__dict__") else config)
    return run


def log(data, step=None, commit=None, sync=None):
    """Tells numbers by their names. As with W&B, a call without a step is a step of its own unless
    `commit` is False, and one with a step belongs to that."""
    global _step, _held
    if step is not None and step > _step:
        if _held:
            _write({"_step": _step, **_held})
        _step, _held = int(step), {}
    _held.update(_numbers(dict(data)))
    if commit or (commit is None and step is None):
        _write({"_step": _step, **_held})
        _step, _held = _step + 1, {}
    elif step is not None:  # told at once, since nobody knows whether more will come
        _write({"_step": _step, **_held})


def finish(*arguments, **options):
    """Ends the run, and tells what was held back."""
    global run, _held
    if _held:
        _write({"_step": _step, **_held})
    run, _held = None, {}


def define_metric(*arguments, **options):
    return Nothing()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing()
