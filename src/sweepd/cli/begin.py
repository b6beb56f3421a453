"""The first steps: init, tasks, models, schema, sample, flops, doctor."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.completion import complete_grids, complete_models, complete_tasks
from sweepd.cli.output import (
    AsCsv,
    AsJson,
    Form,
    Results,
    command,
    emit,
    form_of,
    results_address,
    say,
    show,
    width,
)
from sweepd.errors import EnvironmentFailure, SweepdError, UserError
from sweepd.limits import LARGEST_INT

if TYPE_CHECKING:
    from sweepd.cluster import Check, Cluster
    from sweepd.grid.registry import Entry
    from sweepd.models.base import Part
    from sweepd.query.readable import StyledLine, Tone
    from sweepd.store.storage import Damaged

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="key=value", help="A parameter (repeatable)."),
]


PROSE = 100
"""The length of lines of text off a terminal, in characters."""


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd tasks --json")(tasks)
    app.command(epilog="Example: sweepd models --json")(models)
    app.command(epilog="Example: sweepd schema > grid.schema.json")(schema)
    app.command(epilog="Example: sweepd sample lis --set n=8 --count 5 --seed 0")(sample)
    app.command(epilog="Example: sweepd flops standard --task lis --set n=8 --set d=64")(flops)
    app.command(epilog="Example: sweepd doctor --results runs")(doctor)
    app.command(epilog="Example: sweepd init --grid quickstart --out first")(init)


def tasks(as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """List the tasks with their parameters."""
    from sweepd.grid import registry

    _list(registry.shipped_tasks(), form_of(as_json, as_csv))


def models(as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """List the models with their parameters."""
    from sweepd.grid import registry

    _list(registry.shipped_models(), form_of(as_json, as_csv))


def schema() -> None:
    """Print the JSON Schema of a grid, for editors and checkers."""
    from sweepd.grid.spec import json_schema

    print(json.dumps(json_schema(), indent=2))


MOST_EXAMPLES = 100_000
"""They are in memory together."""


def sample(
    task: Annotated[str, typer.Argument(metavar="TASK", autocompletion=complete_tasks)],
    settings: Settings = None,
    count: Annotated[int, typer.Option(min=1, max=MOST_EXAMPLES)] = 5,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_INT)] = 0,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Print some of a task's test data; with --json, one object a line."""
    from sweepd.grid import registry
    from sweepd.tasks.base import Example, Split
    from sweepd.trial.training import Stream, generator

    form = form_of(as_json, as_csv)
    found = registry.find_task(task, Path())
    given = parsed(settings)
    made = _made(task, found, given)
    _refuse_leftovers(given, task)
    with _readable_errors(task):
        examples = list(made.examples(generator(seed, Stream.TEST, 0), count, Split.TEST))
    if form == "csv":
        rows = [
            {
                n: " ".join(map(str, v)) if isinstance(v, list | tuple) else v
                for n, v in vars(one).items()
            }
            for one in examples
        ]
        columns = list(rows[0]) if rows else [field.name for field in fields(Example)]
        emit(columns, rows, form)
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
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Count the FLOPs of one forward pass over one sequence of L tokens, in two ways, by part.

    flops counts all that is computed, flops_weights weight products only (the paper's count);
    train_bytes is the memory of a training step. --set takes parameters of the model and of the
    task, L in place of the task's own, and batch_size.
    """
    from sweepd.grid import registry
    from sweepd.grid.costs import costs
    from sweepd.grid.settings import Train

    form, given = form_of(as_json, as_csv), parsed(settings)
    L, batch_size = given.pop("L", None), given.pop("batch_size", Train().batch_size)
    problem = _made(task, registry.find_task(task, Path()), given)
    architecture = _made(model, registry.find_model(model, Path()), given)
    _refuse_leftovers(given, f"{task} or {model}")
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
    if form == "table":
        _show_costs(totals, found.parts)
        return
    for part in found.parts:
        totals[f"flops.{part.name}"] = part.flops
        totals[f"flops_weights.{part.name}"] = part.flops_weights
    emit(list(totals), [totals], form)


def _show_costs(totals: dict[str, Any], parts: Sequence[Part]) -> None:
    """Prints the costs of a model for people: the totals in a sentence, the parts in a table."""
    state = "unknown" if totals["state_bytes"] is None else f"{totals['state_bytes']:,}"
    say(
        "{model} on {task}: size {size}, L = {L}, d = {d}, {params:,} parameters, "
        "{state} bytes of decoding state, {train_bytes:,.0f} bytes to train on {batch_size} rows "
        "at once".format(**totals, state=state)
    )
    columns = ("name", "flops", "flops_weights", "how")
    hows = ["counted" if part.counted else "stated" for part in parts]
    rows = [{**vars(part), "how": how} for part, how in zip(parts, hows, strict=True)]
    rows.append({**totals, "name": "total", "how": ""})
    emit(columns, [{name: _grouped(row[name]) for name in columns} for row in rows])


def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every byte of the metrics stored.")
    ] = False,
    cluster: Annotated[
        Path | None,
        typer.Option("--cluster", metavar="FILE", help="Also check what a launch there needs."),
    ] = None,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Check what this machine can do. Exits with 3 if something that launch needs is missing.

    What is asked of a cluster costs nothing and starts nothing.
    """
    from sweepd.cluster import load_cluster
    from sweepd.store.store import Store

    form = form_of(as_json, as_csv)
    site = load_cluster(cluster) if cluster else None
    address = results_address(results or (site.results if site else None))
    checks = list(_checks(address))
    if deep and (store := Store.find(address)):
        damaged = store.damaged_metrics()
        found = f"{len(damaged)} damaged files of metrics"
        checks += _damage("metrics", found, damaged, address)
    checks += [asdict(check) for check in (_cluster_checks(site, address) if site else ())]
    emit(["check", "ok", "detail"], checks, form)
    if not all(check["ok"] for check in checks):
        raise typer.Exit(EnvironmentFailure.exit_code)


def _checks(address: str) -> Iterator[dict[str, Any]]:
    def check(name: str, ok: bool, detail: str) -> dict[str, Any]:
        return {"check": name, "ok": ok, "detail": detail}

    from sweepd.provenance import provenance  # here, as this import takes a while

    yield check("python", sys.version_info >= (3, 11), platform.python_version())
    for package, found in provenance(Path())["versions"].items():
        yield check(package, found is not None, found or "not installed")
    yield check("cores", True, f"{len(os.sched_getaffinity(0))}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield check("memory", True, f"{memory / 2**30:.1f} GiB")
    import torch

    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield check("gpus", True, ", ".join(cards) or "none: trials train on the CPU")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    yield check("scratch", free > 2**30, f"{free / 2**30:.1f} GiB free in {tempfile.gettempdir()}")
    from sweepd.store.store import Store

    try:
        if Store.find(address) is None:
            yield check("results", True, f"{address} will be made by the first launch")
            return
        store = Store.create(address)
        damaged = (
            *store.read_trials().damaged,
            *store.read_plans().damaged,
            *store.readable_sweeps()[1],
        )
        detail = f"{len(store.sweeps())} sweeps, {len(damaged)} damaged files in {store.address}"
        yield from _damage("results", detail, damaged, address)
    except SweepdError as error:
        yield check("results", False, str(error))


def _cluster_checks(site: Cluster, address: str) -> Iterator[Check]:
    """Yields what a launch on a cluster needs, and whether the results can be written from here."""
    from sweepd.cluster import Check, Local
    from sweepd.store.store import Store

    if isinstance(site, Local):
        return
    try:
        site.check_results(address)
        if "://" in address:  # a folder that the nodes share need not be one of this machine
            Store.prospect(address).check_writable()
            yield Check("write", True, f"{address} can be written from here")
    except SweepdError as error:
        yield Check("write", False, str(error))
    yield from site.checks()


def _damage(
    name: str, found: str, damaged: Sequence[Damaged], address: str
) -> Iterator[dict[str, Any]]:
    """Yields a check for damaged files, then each of them, and what to do about them."""
    yield {"check": name, "ok": not damaged, "detail": found}
    for file in damaged:
        yield {"check": name, "ok": False, "detail": str(file)}
    if damaged:
        merge = command("merge", "COPY", results=address)
        detail = f"put such files back from a copy, or bring what they held: `{merge}`"
        if name == "results":
            detail += (
                "; with no copy, launch the grid again, which plans the sweep anew and runs the "
                "trials whose endings are lost"
            )
        yield {"check": name, "ok": False, "detail": detail}


def _list(found: Sequence[Entry], form: Form) -> None:
    """Prints the tasks or the models. For people they stand by family, each with its fields and
    their defaults below it."""
    from sweepd.grid.registry import REQUIRED

    defaults = {
        entry.name: {
            field: "required" if p.default is REQUIRED else p.default
            for field, p in entry.parameters.items()
        }
        for entry in found
    }
    if form != "table":
        columns = ("name", "summary", "parameters", "source", "family")
        parameters = {name: json.dumps(fields) for name, fields in defaults.items()}
        emit(
            columns,
            [
                {**vars(one), "parameters": parameters[one.name], "source": str(one.source)}
                for one in found
            ],
            form,
        )
        return
    margin = 4 + max(len(entry.name) for entry in found)
    lines: list[StyledLine] = []
    family = None
    for entry in sorted(found, key=lambda entry: (entry.family, entry.name)):
        if entry.family != family:
            family = entry.family
            lines += [[], [(family, "title")]] if lines else [[(family, "title")]]
        shown = {
            field: value if isinstance(value, str) else json.dumps(value)
            for field, value in defaults[entry.name].items()
        }
        # A no-break space, so that no line ends between a field and its value.
        fields = ", ".join(f"{field}:\N{NO-BREAK SPACE}{value}" for field, value in shown.items())
        about: list[tuple[str, str, Tone]] = [
            (f"  {entry.name}".ljust(margin), entry.summary, "plain"),
            (" " * margin, fields, "quiet"),
        ]
        for begin, text, tone in about:
            folded = textwrap.wrap(
                text,
                width() or PROSE,
                initial_indent=begin,
                subsequent_indent=" " * margin,
                break_on_hyphens=False,
            )
            lines += [[(part.replace("\N{NO-BREAK SPACE}", " "), tone)] for part in folded]
    show(lines)


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


def _made(name: str, kind: type[Any], given: dict[str, Any]) -> Any:
    """Returns an instance of a task or model, and takes its own fields out of `given`. Raises
    UserError if a field is missing or has no fitting value."""
    from sweepd.grid.axes import scalar
    from sweepd.grid.registry import REQUIRED, parameters

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
        return kind(**values)


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


def _refuse_leftovers(given: dict[str, Any], whose: str) -> None:
    if given:
        raise UserError(f"--set {next(iter(given))}: no such parameter of {whose}")


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


TASK, MODELS = "lis", ("standard", "linear")
"""The task and the models of a new grid for which the user names none."""


def init(
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A grid that comes with sweepd.", autocompletion=complete_grids
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="The task of a new grid.", autocompletion=complete_tasks),
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
    claims: Annotated[
        bool, typer.Option("--claims", help="A commented file of claims for `compare`.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write it.")] = Path(),
) -> None:
    """Write a grid to start from, and templates of a task, a model, a training loop or a program of
    your own beside it; or a file of claims.

    Without --grid it is a new grid with every parameter of its task and models as a comment, and
    with --own loop or program that of these alone. With --from-wandb it has the trials of a sweep
    file of Weights & Biases.
    """
    from sweepd.grid import starters
    from sweepd.grid.spec import json_schema
    from sweepd.grid.wandb import grid_of
    from sweepd.grid.yamlfile import read

    files_of = {"grid": grid, "claims": claims, "from-wandb": from_wandb}
    whole = [name for name, given in files_of.items() if given]
    if whole and (task or model or own or len(whole) > 1):
        raise UserError(f"--{whole[0]} is a whole file: leave out the others")
    for kind in {"loop", "program"}.intersection(own or ()):
        if task or model or set(own or ()) != {kind}:
            raise UserError(
                f"--own {kind} is the whole training: leave out --task, --model and other --own"
            )
    found = {kind: starters.template(kind) for kind in own or ()}
    files = {template.file: text for template, text in found.values()}
    if claims:
        files["claims.yaml"] = (starters.TEMPLATE_FOLDER / "claims.yaml").read_text("utf-8")
    elif grid:
        files[f"{grid}.yaml"] = starters.shipped_grid(grid)
    elif from_wandb:
        files["grid.yaml"], left_out = grid_of(read(from_wandb), str(from_wandb))
        for sentence in left_out:
            say(sentence)
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
    say(f"wrote {', '.join(str(out / name) for name in files)}")
    next_ = f"compare {out / 'claims'}" if claims else f"plan {out / (grid or 'grid')}"
    say(f"next: sweepd {next_}.yaml")
