"""The pages about a user's own classes show the files of docs/examples/. These files are as short
as the pages say, keep all promises, and learn."""

import sys
from pathlib import Path

import pytest
import torch

from sweepd.check.cases import cases_of
from sweepd.check.inspection import inspect
from sweepd.grid.costs import costs
from sweepd.grid.registry import find
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.grid.spec import parse_grid
from sweepd.trial.training import Training

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS / "examples"
PAGES = {
    "own.md": {"parity.py": 30, "lstm.py": 70, "grid.yaml": 12, "digits.py": 60, "digits.yaml": 12},
    "own_examples.md": {"selective.py": 40, "selective.yaml": 12, "retnet.yaml": 12},
    "program.md": {"train.yaml": 18},
}
"""The pages, and how many lines each file that they show has at most."""
SHOWN = [(page, name, most) for page, files in PAGES.items() for name, most in files.items()]
LINKED = {"own.md": {"script.yaml": 12, "script.py": 60},
          "own_examples.md": {"retnet.py": 50, "mixer.py": 70, "ssm.py": 70},
          "program.md": {"train.py": 50, "wandb.yaml": 12},
          "query.md": {"claims.yaml": 30}}  # fmt: skip
"""Those that they link to."""


@pytest.mark.parametrize(("page", "name", "most"), SHOWN)
def test_a_page_shows_each_file_and_it_is_short(page: str, name: str, most: int) -> None:
    text, shown = (EXAMPLES / name).read_text(), (DOCS / page).read_text()
    assert len(text.splitlines()) <= most
    kind = "python" if name.endswith(".py") else "yaml"
    assert f"`{name}`" in shown
    assert f"```{kind}\n{text}```\n" in shown


def test_every_other_example_is_linked_and_is_short() -> None:
    shown = {name for _, name, _ in SHOWN}
    linked = {name for files in LINKED.values() for name in files}
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == shown | linked
    for page, files in LINKED.items():
        for name, most in files.items():
            assert f"](examples/{name})" in (DOCS / page).read_text()
            assert len((EXAMPLES / name).read_text().splitlines()) <= most


def test_the_scores_that_a_page_adds_to_a_task(tmp_path: Path) -> None:
    page = (DOCS / "own_examples.md").read_text().partition("## Scores of its own")[2]
    added = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "selective.py").write_text((EXAMPLES / "selective.py").read_text() + "\n\n" + added)
    grid = "task: {name: selective.py:Whole}\nmodel: {name: standard, d: 8}\ngoal: no_letter < 0.1"
    case = cases_of(parse_grid(grid, "grid.yaml", [], tmp_path))[0]
    found = {finding.check: finding for finding in inspect(case, tmp_path)}
    assert all(finding.ok for finding in found.values())
    assert found["metrics"].detail == "the right answers have acc 1, no_letter 0"


def trained(
    task: str, model: str, steps: int, d: int = 16, lr: float = 5e-3, **fields: int
) -> Training:
    problem = find("task", task, EXAMPLES)(**fields)
    architecture = find("model", model, EXAMPLES)(d=d)
    found = costs(architecture, len(problem.vocab), problem.L, problem.capacity)
    training = Training(
        problem,
        architecture,
        Train(steps=steps, batch_size=32, warmup=20, lr=lr),
        Evaluate(check_every=steps // 2, check_samples=40, verdict_samples=60),
        Stop(),
        seed=0,
        flops_per_step=float(found.flops),
        device="cpu",
    )
    training.losses = [row.columns["loss"] for row in training.advance() if row]  # type: ignore[attr-defined]
    return training


@pytest.mark.parametrize(
    ("model", "task", "steps", "lr", "fields", "least"),
    [
        ("lstm.py:Lstm", "lis", 300, 1e-2, {"n": 2, "value_range": 16}, 0.8),
        ("mixer.py:Mixer", "parity.py:Parity", 150, 1e-2, {"n": 7}, 0.95),
        ("ssm.py:Ssm", "selective.py:Selective", 150, 5e-3, {"n": 2, "room": 6}, 0.8),
        ("retnet.py:RetNet", "lis", 250, 5e-3, {"n": 3, "value_range": 16}, 0.8),
    ],
)
def test_each_model_learns_a_task(
    model: str, task: str, steps: int, lr: float, fields: dict[str, int], least: float
) -> None:
    score = trained(task, model, steps, d=32, lr=lr, **fields).score
    assert score and score.acc is not None and score.acc >= least


TASKS = ["parity.py:Parity", "selective.py:Selective"]


@pytest.mark.parametrize(
    ("task", "model", "kinds"),
    [
        *((task, "standard", ("task",)) for task in TASKS),
        *(
            (task, model, ("model", "trial"))
            for task in TASKS
            for model in ("lstm.py:Lstm", "mixer.py:Mixer", "ssm.py:Ssm", "retnet.py:RetNet")
        ),
    ],
)
def test_examples_keep_their_promises(task: str, model: str, kinds: tuple[str, ...]) -> None:
    grid = f"task: {{name: {task}}}\nmodel: {{name: {model}, d: 8}}\ntrain: {{batch_size: 8}}\n"
    cases = cases_of(parse_grid(grid, "grid.yaml", [], EXAMPLES))
    found = [f for case in cases if case.kind in kinds for f in inspect(case, EXAMPLES)]
    assert {case.kind for case in cases} >= {*kinds}
    assert found and all(finding.ok for finding in found), found


def test_a_scan_is_the_recurrence() -> None:
    """The selective state space model computes log2(T) rounds. Its slow twin takes one step for
    each token."""
    scan = sys.modules[find("model", "ssm.py:Ssm", EXAMPLES).__module__].scan
    log_decay, added = -torch.rand(2, 11, 3, 4), torch.randn(2, 11, 3, 4)
    held, slow = torch.zeros(2, 3, 4), []
    for t in range(11):
        held = log_decay[:, t].exp() * held + added[:, t]
        slow.append(held)
    torch.testing.assert_close(scan(log_decay, added), torch.stack(slow, 1))


def test_first_weights_are_decided_by_the_generator_also_where_torch_draws_them() -> None:
    def weights(seed: int) -> dict[str, torch.Tensor]:
        torch.rand(3)  # whatever drew before
        before = torch.random.get_rng_state()
        generator = torch.Generator().manual_seed(seed)
        model: torch.nn.Module = find("model", "lstm.py:Lstm", EXAMPLES)(d=8).build(
            5, 19, 20, generator
        )
        assert torch.equal(before, torch.random.get_rng_state())
        return model.state_dict()

    first, again, other = weights(0), weights(0), weights(1)
    for name, value in first.items():
        assert torch.equal(value, again[name])
        assert not torch.equal(value, other[name])


def test_the_costs_of_the_lstm_are_counted() -> None:
    d, vocab, L = 16, 5, 19
    found = costs(find("model", "lstm.py:Lstm", EXAMPLES)(d=d), vocab, L, L + 1)
    assert {part.name: part.flops for part in found.parts} == {
        "lstm": 2 * L * 8 * d * d,
        "head": 2 * L * d * vocab,
    }
    assert found.flops == found.flops_weights
    assert found.params == vocab * d + 8 * d * d + 8 * d + (d + 1) * vocab
    assert found.state_bytes == 4 * 2 * d
