"""The first steps: init, tasks, models, schema, sample, flops, doctor."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.completion import complete_grids, complete_models, complete_tasks
from sweepd.cli.options import AsJson, Results, Settings
from sweepd.cli.output import Form, command, emit, form_of, results_address, say, show, width
from sweepd.errors import EnvironmentFailure, SweepdError, UserError
from sweepd.limits import LARGEST_INT
from sweepd.listing import PROSE, in_lines

if TYPE_CHECKING:
    from sweepd.grid.registry import Entry
    from sweepd.query.readable import StyledLine
    from sweepd.store.storage import Damaged

MOST_EXAMPLES = 100_000
"""They are in memory together."""
TASK, MODELS = "lis", ("standard", "linear")
"""The task and the models of a new grid for which the user names none."""


def tasks(as_json: AsJson = None) -> None:
    """List the tasks with their parameters."""
    from sweepd.grid import registry

    _list(registry.shipped("task"), form_of(as_json))


def models(as_json: AsJson = None) -> None:
    """List the models with their parameters."""
    from sweepd.grid import registry

    _list(registry.shipped("model"), form_of(as_json))


def schema() -> None:
    """Print the JSON Schema of a grid, for editors and checkers."""
    from sweepd.grid.spec import json_schema

    print(json.dumps(json_schema(), indent=2))


def sample(
    task: Annotated[str, typer.Argument(metavar="TASK", autocompletion=complete_tasks)],
    settings: Settings = None,
    count: Annotated[int, typer.Option(min=1, max=MOST_EXAMPLES)] = 5,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_INT)] = 0,
    as_json: AsJson = None,
) -> None:
    """Print some of a task's test data; with --json, one object a line."""
    from sweepd.grid import registry
    from sweepd.tasks.base import Example, Split
    from sweepd.trial.training import Stream, generator

    form = form_of(as_json)
    [made] = _made({task: registry.find("task", task, Path())}, parsed(settings))
    with _readable_errors(task):
        examples = list(made.examples(generator(seed, Stream.TEST, 0), count, Split.TEST))
    if form == "csv":
        rows = [
            {
                name: " ".join(map(str, v)) if isinstance(v, list | tuple) else v
                for name, v in vars(one).items()
            }
            for one in examples
        ]
        emit([field.name for field in fields(Example)], rows, form)
        return
    for example in examples:
        if form == "json":
            print(json.dumps(vars(example), ensure_ascii=False))
        else:
            print(" ".join(example.tokens))


def flops(
    model: Annotated[str, typer.Argument(metavar="MODEL", autocompletion=complete_models)],
    task: Annotated[
        str,
        typer.Option(help="The task that the model is to learn.", autocompletion=complete_tasks),
    ],
    settings: Settings = None,
    as_json: AsJson = None,
) -> None:
    """Count the FLOPs of one forward pass over one sequence of L tokens, in two ways, by part.

    flops counts all that is computed, flops_weights weight products only (the paper's count);
    train_bytes is the memory of a training step. --set takes parameters of the model and of the
    task, L in place of the task's own, and batch_size.
    """
    from sweepd.grid import registry
    from sweepd.grid.costs import costs
    from sweepd.grid.settings import Train

    form, given = form_of(as_json), parsed(settings)
    L, batch_size = given.pop("L", None), given.pop("batch_size", Train().batch_size)
    here = Path()
    classes = {task: registry.find("task", task, here), model: registry.find("model", model, here)}
    problem, architecture = _made(classes, given)
    with _readable_errors(task):
        size, capacity, vocab_size = problem.size, problem.capacity, len(problem.vocab)
        L = problem.L if L is None else L
    for name, value in {"L": L, "batch_size": batch_size}.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(f"--set {name}: {value} is no whole number, or less than 1")
    with _readable_errors(f"{model} at L = {L}"):
        found = costs(architecture, vocab_size, L, max(capacity, L + 1))
    totals = {
        "model": model,
        "task": task,
        "size": size,
        "d": getattr(architecture, "d", None),
        "L": L,
        "flops": found.flops,
        "flops_weights": found.flops_weights,
        "params": found.params,
        "state_bytes": found.state_bytes,
        "counted": any(part.counted for part in found.parts),
        "batch_size": batch_size,
        "train_bytes": found.train_bytes(batch_size),
    }
    if found.uncounted:
        say(f"left out, since torch cannot count them: {', '.join(found.uncounted)}")
    if form != "table":
        for part in found.parts:
            totals[f"flops.{part.name}"] = part.flops
            totals[f"flops_weights.{part.name}"] = part.flops_weights
        emit(list(totals), [totals], form)
        return
    state = "unknown" if found.state_bytes is None else f"{found.state_bytes:,}"
    say(
        "{model} on {task}: size {size}, L = {L}, d = {d}, {params:,} parameters, "
        "{state} bytes of decoding state, {train_bytes:,.0f} bytes to train on {batch_size} rows "
        "at once".format(**totals, state=state)
    )
    rows = []
    for part in found.parts:
        counts = {"flops": f"{part.flops:,}", "flops_weights": f"{part.flops_weights:,}"}
        rows.append({"name": part.name, **counts, "how": "counted" if part.counted else "stated"})
    total = {"flops": f"{found.flops:,}", "flops_weights": f"{found.flops_weights:,}"}
    emit(["name", "flops", "flops_weights", "how"], [*rows, {"name": "total", **total}])


def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every byte of the metrics stored.")
    ] = False,
    cluster: Annotated[
        Path | None,
        typer.Option("--cluster", metavar="FILE", help="Also check what a launch there needs."),
    ] = None,
    policy: Annotated[
        bool,
        typer.Option(
            "--policy", help="Print what the role of the cluster's nodes must be allowed."
        ),
    ] = False,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Check what this machine can do. Exits with 3 if something that launch needs is missing.

    What is asked of a cluster costs nothing and starts nothing.
    """
    from sweepd.cluster import Local, load_cluster
    from sweepd.cluster.aws import AWS
    from sweepd.provenance import provenance
    from sweepd.store.store import Store

    form = form_of(as_json)
    site = load_cluster(cluster) if cluster else None
    address = results_address(site.results if site and results is None else results)
    if policy:
        if not isinstance(site, AWS):
            raise UserError("--policy needs --cluster FILE, of kind aws")
        print(site.policy(address))
        return
    checks: list[dict[str, Any]] = []

    def check(name: str, ok: bool, detail: str) -> None:
        checks.append({"check": name, "ok": ok, "detail": detail})

    def check_files(name: str, damaged: Sequence[Damaged], detail: str, remedy: str) -> None:
        """There is a check for each damaged file, and what to do about it."""
        check(name, not damaged, detail)
        for told in (*damaged, remedy) if damaged else ():
            check(name, False, str(told))

    # This machine. A launch elsewhere begins on it, and the nodes have a Python of their own.
    remote = not (site is None or isinstance(site, Local))
    own = f"{platform.python_version()}{', of this machine' * remote}"
    check("python", sys.version_info >= (3, 11), own)
    for package, found in provenance(Path())["versions"].items():
        check(package, found is not None, found or "not installed")
    check("cores", True, f"{len(os.sched_getaffinity(0))}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    check("memory", True, f"{memory / 2**30:.1f} GiB")
    import torch  # which takes a while

    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    check("gpus", True, ", ".join(cards) or "none: trials train on the CPU")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    check("scratch", free > 2**30, f"{free / 2**30:.1f} GiB free in {tempfile.gettempdir()}")

    # The results.
    merge = command("merge", "COPY", results=address)
    remedy = f"put such files back from a copy, or bring what they held: `{merge}`"
    anew = (
        "with no copy, launch the grid again, which plans the sweep anew and runs the trials whose "
        "endings are lost"
    )
    try:
        if Store.find(address) is None:
            check("results", True, f"{address} will be made by the first launch")
        else:
            store = Store.create(address)
            files, old = store.inspected()
            count = f"{len(store.sweeps())} sweeps, {len(files)}"
            found = f"{count} damaged files in {store.address}"
            check_files("results", files, found, f"{remedy}; {anew}")
            if old:
                check("digests", True, f"{old} files of an earlier version hold none")
            if deep:
                files = store.metrics.whole()[1]
                check_files("metrics", files, f"{len(files)} damaged files of metrics", remedy)
    except SweepdError as error:
        check("results", False, str(error))

    # What a launch on the cluster needs, and whether the results can be written from here.
    if site and not isinstance(site, Local):
        try:
            site.check_results(address)
            if "://" in address:  # a folder that the nodes share need not be one of this machine
                Store.prospect(address).check_writable()
                check("write", True, f"{address} can be written from here")
        except SweepdError as error:
            check("write", False, str(error))
        checks += [asdict(one) for one in (site.check_python(), *site.checks(address))]
    emit(["check", "ok", "detail"], checks, form)
    if not all(one["ok"] for one in checks):
        raise typer.Exit(EnvironmentFailure.exit_code)


def _list(entries: Sequence[Entry], form: Form) -> None:
    """Prints the tasks or the models. For people they stand by family, each with its fields and
    their defaults below it."""
    from sweepd.grid.registry import REQUIRED

    defaults = {
        entry.name: {
            field: "required" if p.default is REQUIRED else p.default
            for field, p in entry.parameters.items()
        }
        for entry in entries
    }
    if form != "table":
        rows = [
            {**vars(one), "parameters": json.dumps(defaults[one.name]), "source": str(one.source)}
            for one in entries
        ]
        emit(("name", "summary", "parameters", "source", "family"), rows, form)
        return
    margin = 4 + max(map(len, defaults))
    room = (width() or PROSE) - margin
    lines: list[StyledLine] = []
    by_family = sorted(entries, key=attrgetter("family", "name"))
    for family, members in groupby(by_family, key=attrgetter("family")):
        lines += [[], [(family, "title")]]
        for entry in members:
            begin = f"  {entry.name}"
            for text in in_lines(entry.summary.split(), room, " "):
                lines.append([(f"{begin:{margin}}{text}", "plain")])
                begin = ""
            # No line ends between a field and its value.
            shown = [
                f"{field}: {value if isinstance(value, str) else json.dumps(value)}"
                for field, value in defaults[entry.name].items()
            ]
            for text in in_lines([f"{one}," for one in shown[:-1]] + shown[-1:], room, " "):
                lines.append([(" " * margin + text, "quiet")])
    show(lines[1:])


def parsed(settings: list[str] | None) -> dict[str, Any]:
    """Returns what the `key=value` options set, with values read as YAML. Raises GridError if one
    cannot be read."""
    from sweepd.grid.yamlfile import Document, GridError, override

    document = Document({}, "--set")
    for setting in settings or ():
        override(document, setting)
    if document.problems:
        raise GridError(document.problems)
    given: dict[str, Any] = document.data
    return given


def _made(classes: Mapping[str, type[Any]], given: dict[str, Any]) -> list[Any]:
    """Returns an instance of each of these tasks and models, with their fields from `given`. Raises
    UserError if a field is missing, has no fitting value, or is none of theirs."""
    from sweepd.grid.axes import scalar
    from sweepd.grid.registry import REQUIRED, parameters

    made = []
    for name, kind in classes.items():
        values: dict[str, Any] = {}
        for field, parameter in parameters(kind).items():
            if field in given:
                try:
                    values[field] = scalar(parameter.type, given.pop(field))
                except ValueError as error:
                    raise UserError(f"--set {field}: {error}") from None
            elif parameter.default is REQUIRED:
                raise UserError(f"{name} needs {field}: add --set {field}=…")
        with _readable_errors(name):
            made.append(kind(**values))
    if given:
        whose = " or ".join(classes)
        raise UserError(f"--set {next(iter(given))}: no such parameter of {whose}")
    return made


@contextmanager
def _readable_errors(what: str) -> Iterator[None]:
    """Turns what a task or model raises in this block into a UserError that says where. A user's
    class may raise anything, and print. Of a shipped one only ValueError is turned."""
    from sweepd.grid.axes import reason
    from sweepd.grid.registry import is_own
    from sweepd.grid.user_files import undisturbed

    try:
        with undisturbed():
            yield
    except UserError:
        raise
    except Exception as error:
        if is_own(what) or isinstance(error, ValueError):
            raise UserError(f"{what}: {reason(error)}") from error
        raise


def init(
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A grid that comes with sweepd.", autocompletion=complete_grids
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task of a new grid.", autocompletion=complete_tasks)
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model of a new grid (repeatable).", autocompletion=complete_models),
    ] = None,
    own: Annotated[
        list[str] | None,
        typer.Option(
            metavar="task|model|loop|program", help="A template of your own (repeatable)."
        ),
    ] = None,
    from_wandb: Annotated[
        Path | None,
        typer.Option("--from-wandb", metavar="FILE", help="A sweep file of Weights & Biases."),
    ] = None,
    from_hydra: Annotated[
        Path | None,
        typer.Option(
            "--from-hydra", metavar="FILE", help="A config of Hydra with `hydra.sweeper.params`."
        ),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The script of --from-hydra, such as train.py."),
    ] = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="A commented file of claims for `compare`.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write it.")] = Path(),
) -> None:
    """Write a grid to start from, and templates of a task, a model, a training loop or a program of
    your own beside it; or a file of claims.

    Without --grid it is a new grid with every parameter of its task and models as a comment, and
    with --own loop or program that of these alone. With --from-wandb or --from-hydra it has the
    trials of a sweep file of Weights & Biases or of Hydra.
    """
    from sweepd.grid import hydra, starters, wandb
    from sweepd.grid.spec import json_schema
    from sweepd.grid.yamlfile import read

    files_of = {
        "grid": grid,
        "claims": claims,
        "from-wandb": from_wandb,
        "from-hydra": from_hydra,
    }
    whole = [name for name, given in files_of.items() if given]
    if whole and (task or model or own or len(whole) > 1):
        raise UserError(f"--{whole[0]} is a whole file: leave out the others")
    for kind in {"loop", "program"}.intersection(own or ()):
        if task or model or set(own or ()) != {kind}:
            raise UserError(
                f"--own {kind} is the whole training: leave out --task, --model and other --own"
            )
    if bool(program) != bool(from_hydra):
        raise UserError("--from-hydra FILE and --program train.py belong together: write both")
    found = {kind: starters.template(kind) for kind in own or ()}
    notes: list[str] = []
    files = {template.file: text for template, text in found.values()}
    if claims:
        files["claims.yaml"] = (starters.TEMPLATE_FOLDER / "claims.yaml").read_text("utf-8")
    elif grid:
        files[f"{grid}.yaml"] = starters.shipped_grid(grid)
    elif from_wandb:
        files["grid.yaml"], notes = wandb.grid_of(read(from_wandb), str(from_wandb))
    elif from_hydra and program:
        files["grid.yaml"], notes = hydra.grid_of(read(from_hydra), from_hydra, program, out)
    elif alone := [made.grid for made, _ in found.values() if made.grid]:
        files["grid.yaml"] = starters.template_grid(alone[0])
    else:
        task = task or (found["task"][0].where if "task" in found else TASK)
        models = model or ([found["model"][0].where] if "model" in found else [*MODELS])
        files["grid.yaml"] = starters.new_grid(task, models, out)
    if there := [name for name in files if (out / name).exists()]:
        raise UserError(
            f"{out} has {', '.join(there)} already: nothing was written; name another --out"
        )
    if not claims:
        files[starters.SCHEMA] = json.dumps(json_schema())
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {out}: {error.strerror}") from error
    for note in notes:
        say(note)
    say(f"wrote {', '.join(str(out / name) for name in files)}")
    if from_wandb or from_hydra:
        _say_problems(out / "grid.yaml")
    next_ = f"compare {out / 'claims'}" if claims else f"plan {out / (grid or 'grid')}"
    say(f"next: sweepd {next_}.yaml")


def _say_problems(path: Path) -> None:
    """Says what `plan` refuses of a grid that was made of another program's file."""
    from sweepd.grid.plan import plan
    from sweepd.grid.spec import load_grid

    try:
        plan(load_grid(path))
    except UserError as error:
        say(f"plan will refuse it until this is mended:\n{error}")
