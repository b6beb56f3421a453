"""Training scripts in the shapes that people write them in, each swept as it is: no line of it is
there for sweepd. `rows:` of the grid says where it tells its numbers."""

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from inprocess import sweepd

LEARN = """
def learn(width, steps=3):
    for step in range(1, steps + 1):
        yield step, 1 / (step * width), min(1.0, step * width / 12)
"""
"""What all of them train: after three steps a width of 2 has acc .5, and one of 8 has 1."""


@dataclass(frozen=True)
class Shape:
    files: dict[str, str]
    program: str
    rows: dict[str, Any] | None
    more: dict[str, Any] = field(default_factory=dict)


ARGPARSE = """
import argparse
from learn import learn
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int)
options = parser.parse_args()
"""
SHAPES = {
    "argparse with lines of text": Shape(
        {
            "train.py": ARGPARSE + "for step, loss, acc in learn(options.width):\n"
            '    print(f"step {step}: lr 1e-3, loss {loss:.6f}, acc {acc:.2%}")\n'
        },
        "python train.py --width {width}",
        {"pattern": "step {step}: .*loss {loss}, acc {acc}"},
    ),
    "click": Shape(
        {
            "train.py": "import click\nfrom learn import learn\n"
            "@click.command()\n@click.option('--width', type=int)\ndef main(width):\n"
            "    for step, loss, acc in learn(width):\n"
            "        click.secho(f'[{step}] loss={loss} | acc={acc}', fg='green', color=True)\n"
            "main()\n"
        },
        "python train.py --width {width}",
        {"pattern": "[{step}] loss={loss} | acc={acc}"},
    ),
    "absl, whose log is on stderr": Shape(
        {
            "train.py": "from absl import app, flags, logging\nfrom learn import learn\n"
            "WIDTH = flags.DEFINE_integer('width', 1, '')\ndef main(_):\n"
            "    for step, loss, acc in learn(WIDTH.value):\n"
            "        logging.error('step %d loss %g acc %g', step, loss, acc)\napp.run(main)\n"
        },
        "python train.py --width={width}",
        {"from": "stderr", "pattern": "step {step} loss {loss} acc {acc}"},
    ),
    "key=value, with JSON in a file": Shape(
        {
            "train.py": "import json, os, sys\nfrom learn import learn\n"
            "config = dict(word.split('=', 1) for word in sys.argv[1:])\n"
            "os.makedirs('outputs/logs', exist_ok=True)\n"
            "with open('outputs/logs/metrics.jsonl', 'w') as file:\n"
            "    for step, loss, acc in learn(int(config['model.width'])):\n"
            "        row = {'global_step': step, 'eval': {'loss': loss, 'acc': acc}, 'tokens': 9}\n"
            "        file.write(json.dumps(row) + '\\n')\n"
        },
        "python train.py model.width={width} run.dir={dir}",
        {
            "from": "outputs/logs/*.jsonl",
            "step": "global_step",
            "metrics": {"acc": "eval/acc", "loss": "eval/loss"},
        },
    ),
    "a module of a package": Shape(
        {
            "pkg/__init__.py": "",
            "pkg/learn.py": LEARN,
            "pkg/train.py": ARGPARSE.replace("from learn", "from pkg.learn")
            + "for step, loss, acc in learn(options.width):\n"
            "    print(f'Step {step:05d} | Validation loss: {loss:.4f} | acc {acc}')\n",
        },
        "python -m pkg.train --width {width}",
        {"pattern": "Step {step} | Validation loss: {loss} | acc {acc}"},
    ),
    "a live bar on stdout, then one number": Shape(
        {
            "train.py": ARGPARSE + "for step, loss, acc in learn(options.width):\n"
            "    print(f'\\r{step * 33}%|###   | {step}/3 [00:01<00:02, 3.1it/s]', end='')\n"
            "print(f'\\nval_loss: {loss:.6f}\\nNetwork score: {acc}')\n"
        },
        "python train.py --width {width}",
        {"final": {"loss": "val_loss: {loss}", "acc": "Network score: {acc}"}},
    ),
    "CSV as Lightning writes it": Shape(
        {
            "train.py": ARGPARSE + "import os\nos.makedirs('lightning_logs/version_0')\nrows = []\n"
            "for step, loss, acc in learn(options.width):\n"
            "    rows += [f'{step},{step},{loss},', f'{step},{step},,{acc}']\n"
            "    with open('lightning_logs/version_0/metrics.csv', 'w') as file:\n"
            "        file.write('\\n'.join(['epoch,step,train loss,test/Accuracy_epoch', *rows]))\n"
        },
        "python train.py --width {width}",
        {
            "from": "lightning_logs/*/metrics.csv",
            "metrics": {"acc": "test/Accuracy_epoch", "loss": "train loss"},
        },
    ),
    "wandb.log without a step": Shape(
        {
            "train.py": ARGPARSE
            + "import wandb\nrun = wandb.init(project='mine', config=vars(options))\n"
            "for step, loss, acc in learn(options.width):\n"
            "    wandb.log({'train/loss': loss, 'lr': 0.1})\n"
            "    wandb.log({'val/acc': acc, 'table': wandb.Table(columns=['a'])})\n"
            "wandb.finish()\n"
        },
        "python train.py --width {width}",
        {"from": "wandb", "metrics": {"acc": "val/acc", "loss": "train/loss"}},
    ),
    "TensorBoard": Shape(
        {
            "train.py": ARGPARSE + "from torch.utils.tensorboard import SummaryWriter\n"
            "with SummaryWriter('runs/first') as writer:\n"
            "    for step, loss, acc in learn(options.width):\n"
            "        writer.add_scalar('train/loss', loss, step)\n"
            "        writer.add_scalar('valid/acc', acc, step)\n"
        },
        "python train.py --width {width}",
        {"from": "tensorboard", "metrics": {"acc": "valid/acc", "loss": "train/loss"}},
    ),
    "a shell script around Python": Shape(
        {
            "train.py": ARGPARSE + "for step, loss, acc in learn(options.width):\n"
            "    print(f'{step} {loss} {acc}')\n",
            "job.sh": 'set -e\necho "begin"\npython train.py --width "$1" 2>&1 | tee log.txt\n',
        },
        "bash job.sh {width}",
        {"pattern": r"^(?P<step>\d+) (?P<loss>\S+) (?P<acc>\S+)$"},
        {"files": ["train.py", "learn.py"]},
    ),
    "torchrun with two processes": Shape(
        {
            "train.py": ARGPARSE
            + "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
            "for step, loss, acc in learn(options.width):\n"
            "    dist.barrier()\n"
            "    if dist.get_rank() == 0:\n"
            "        print(f'iter {step}: loss {loss:.6f} acc {acc:.6f}', flush=True)\n"
            "dist.destroy_process_group()\n"
        },
        "torchrun --nproc-per-node 2 --standalone --log-dir {dir}/logs --tee 3 train.py "
        "--width {width}",
        {"pattern": "iter {step}: loss {loss} acc {acc}"},
    ),
    "constants in the file, and no flags": Shape(
        {
            "train.py": "from learn import learn\nSTEPS, LR = 3, 1.0\nWIDTH: int = 64  # wide\n"
            "for step, loss, acc in learn(WIDTH, STEPS):\n"
            "    print(f'loss {loss:.6f} acc {acc}')\n"
        },
        "python train.py",
        {"pattern": "loss {loss} acc {acc}"},
        {"set": {"train.py": {"WIDTH": "width"}}},
    ),
    "a config file, made of a template": Shape(
        {
            "conf.yaml.in": "model: {width: {{ width }}, name: 'x'}\n",
            "train.py": "import argparse, yaml\nfrom learn import learn\n"
            "parser = argparse.ArgumentParser()\nparser.add_argument('--config')\n"
            "with open(parser.parse_args().config) as file:\n    config = yaml.safe_load(file)\n"
            "for step, loss, acc in learn(config['model']['width']):\n"
            "    print(f'{step}: {loss:.6f}, {acc}')\n",
        },
        "python train.py --config conf/run.yaml",
        {"pattern": "{step}: {loss}, {acc}"},
        {"template": {"conf/run.yaml": "conf.yaml.in"}, "files": []},
    ),
    "uv run in a project": Shape(
        {
            "pyproject.toml": "[project]\nname = 'guest'\nversion = '1'\n",
            "train.py": ARGPARSE + "for step, loss, acc in learn(options.width):\n"
            "    print({'step': step, 'loss': loss, 'acc': acc})\n",
        },
        "uv run --offline python train.py --width {width}",
        {"from": "stdout"},
    ),
    "a file of JSON as a whole, in {dir}": Shape(
        {
            "train.py": ARGPARSE.replace("options =", 'parser.add_argument("--out")\noptions =')
            + "import json\nfor step, loss, acc in learn(options.width):\n"
            "    with open(options.out + '/all_results.json', 'w') as file:\n"
            "        json.dump({'step': step, 'eval': dict(loss=loss, acc=acc)}, file, indent=1)\n"
        },
        "python train.py --width {width} --out {dir}",
        {"from": "{dir}/all_results.json", "metrics": {"acc": "eval.acc", "loss": "eval.loss"}},
    ),
    "TensorBoard in {dir}": Shape(
        {
            "train.py": ARGPARSE.replace("options =", 'parser.add_argument("--out")\noptions =')
            + "from torch.utils.tensorboard import SummaryWriter\n"
            "with SummaryWriter(options.out + '/tb') as writer:\n"
            "    for step, loss, acc in learn(options.width):\n"
            "        writer.add_scalar('loss', loss, step)\n"
            "        writer.add_scalar('acc', acc, step)\n"
        },
        "python train.py --width {width} --out {dir}",
        {"from": "tensorboard"},
    ),
    "temporary files that come and go beside its rows": Shape(
        {
            "train.py": ARGPARSE + "import os, time\n"
            "for step, loss, acc in learn(options.width):\n"
            "    with open('m.csv', 'a') as file:\n"
            "        file.write(f'{step};{loss};{acc}\\n' if step > 1 else\n"
            "                   f'step;loss;acc\\n{step};{loss};{acc}\\n')\n"
            "    until = time.time() + 0.5\n"
            "    while time.time() < until:\n"
            "        os.makedirs('tmp')\n"
            "        open('tmp/x', 'w').close()\n"
            "        os.replace('tmp/x', 'y')\n"
            "        os.rmdir('tmp')\n"
        },
        "python train.py --width {width}",
        {"from": "m.csv"},
    ),
    "an epoch on a line, its numbers on the next": Shape(
        {
            "train.py": ARGPARSE + "for step, loss, acc in learn(options.width):\n"
            "    print(f'Epoch {step}/3\\n------')\n"
            "    print(f'Accuracy: {acc:.1%}, Avg loss: {loss:>8f} \\n')\n"
        },
        "python train.py --width {width}",
        {"pattern": ["Epoch {step}/", "Accuracy: {acc}, Avg loss: {loss}"]},
    ),
    "JSON lines, as without `rows`": Shape(
        {
            "train.py": ARGPARSE + "import json\nfor step, loss, acc in learn(options.width):\n"
            "    print(json.dumps({'step': step, 'loss': loss, 'acc': acc}))\n"
        },
        "python train.py --width {width}",
        None,
    ),
}


def swept(folder: Path, shape: Shape, exits: int = 0) -> list[dict[str, Any]]:
    """The rows of the trials of a shape with two widths."""
    for name, text in {"learn.py": LEARN, **shape.files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    loop = {"program": shape.program, "as": "mine", "task": "made", **shape.more}
    loop |= {"metrics": {"acc": "up", "loss": "down"}, "width": [2, 8]}
    loop |= {"rows": shape.rows} if shape.rows else {}
    grid = {"name": "shape", "loop": loop, "seeds": [0], "goal": "acc > 0.7"}
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        sweepd("launch", "grid.yaml", "--in-process", exits=exits)
        question = "SELECT width, status, acc, loss, step, error, id FROM trials ORDER BY width"
        return sweepd("sql", question, "--json").rows


@pytest.mark.parametrize("name", SHAPES)
def test_a_program_is_swept_as_it_is(name: str, tmp_path: Path) -> None:
    command = SHAPES[name].program.split()[0]
    if not shutil.which(command, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        pytest.skip(f"there is no {command} here")
    rows = swept(tmp_path, SHAPES[name])
    assert [row["status"] for row in rows] == ["completed"] * 2, json.dumps(rows, indent=1)
    assert [row["acc"] for row in rows] == pytest.approx([0.5, 1.0])
    assert [row["loss"] for row in rows] == pytest.approx([1 / 6, 1 / 24], abs=1e-4)
    assert not [*tmp_path.glob("*/files/*/.venv")], "an environment that uv makes is no result"


def test_a_row_that_cannot_be_taken_is_said(tmp_path: Path) -> None:
    """It never ends as completed with an earlier row as its score without a word."""
    last = "    print(f'step {step} loss {loss} acc {acc if step < 3 else None}')\n"
    program = ARGPARSE + "for step, loss, acc in learn(options.width):\n" + last
    pattern = {"pattern": "step {step} loss {loss} acc {acc}"}
    rows = swept(tmp_path, Shape({"train.py": program}, "python train.py --width {width}", pattern))
    assert all("acc None" in row["error"] for row in rows), rows


def test_a_metric_that_nothing_tells_is_a_failure_with_what_there_is(tmp_path: Path) -> None:
    program = ARGPARSE + 'print(\'{"step": 1, "loss": 1, "accuracy": 2}\')\n'
    names = {"step": "step"}
    shape = Shape({"train.py": program}, "python train.py --width {width}", names)
    rows = swept(tmp_path, shape, exits=1)
    assert all("nothing told acc" in row["error"] for row in rows), rows
    assert all("there are accuracy" in row["error"] for row in rows), rows


def seeded(folder: Path, seeds: dict[str, Any], program: str) -> list[dict[str, Any]]:
    loop = {"program": "python train.py", "as": "mine", "task": "made", "metrics": {"acc": "up"}}
    loop |= {"rows": {"pattern": "acc {acc}"}, "seeds": seeds}
    grid = {"name": "seeded", "loop": loop, "seeds": [3, 4], "goal": "acc > 0.7"}
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    (folder / "train.py").write_text(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        sweepd("launch", "grid.yaml", "--in-process", exits=0)
        return sweepd("sql", "SELECT seed, acc, error FROM trials ORDER BY seed", "--json").rows


def test_a_seed_comes_by_a_variable(tmp_path: Path) -> None:
    program = "import os\nprint('acc', int(os.environ['SEED']) / 10)\n"
    rows = seeded(tmp_path, {"env": "SEED"}, program)
    assert [row["acc"] for row in rows] == [0.3, 0.4]


def test_a_program_that_knows_no_seed_is_seeded_from_outside_and_its_rows_say_so(
    tmp_path: Path,
) -> None:
    program = "import random, numpy, torch\n"
    program += "print('acc', (random.random() + numpy.random.rand() + torch.rand(1).item()) / 3)\n"
    rows = seeded(tmp_path, {"patch": True}, program)

    def drawn(seed: int) -> float:
        import random

        import numpy as np
        import torch

        numbers = random.Random(seed).random(), np.random.RandomState(seed).rand()
        generator = torch.Generator().manual_seed(seed)
        return (sum(numbers) + torch.rand(1, generator=generator).item()) / 3

    assert [row["acc"] for row in rows] == pytest.approx([drawn(3), drawn(4)])
    assert all("set from outside" in row["error"] for row in rows)


def test_a_constant_or_a_field_that_is_not_there_is_refused_with_its_place(tmp_path: Path) -> None:
    shape = SHAPES["constants in the file, and no flags"]
    wrong = {"set": {"train.py": {"WIDHT": "width"}}}
    with pytest.raises(AssertionError, match=r"sets no WIDHT at its top level.*WIDTH"):
        swept(tmp_path, Shape(shape.files, shape.program, shape.rows, wrong))


TOLD = """
import time
print("data has 1,000 characters")
for step in (0, 250):
    print(f"step {step}: train loss {1 / (step + 1):.4f}, val loss {2 / (step + 2):.4f}")
    for i in range(3):
        print(f"iter {step + i}: loss 0.5000, time 3.1ms, mfu 1.00%", flush=True)
    time.sleep(SECONDS)
print("Test accuracy: 97.5%")
"""


@pytest.mark.parametrize(
    ("seconds", "metrics"),
    [(0, {"train_loss", "val_loss", "test_accuracy"}), (60, {"train_loss", "val_loss"})],
)
def test_names_of_two_words_and_a_first_row_are_enough_for_a_guess(
    seconds: int, metrics: set[str], tmp_path: Path
) -> None:
    """As of a long run, of which only the first evaluation comes in time."""
    (tmp_path / "job.sh").write_text("echo with $1\npython train.py\n")
    (tmp_path / "train.py").write_text(TOLD.replace("SECONDS", str(seconds)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        sweepd("init", "--from-command", "bash job.sh 3", "--seconds", "5", exits=0)
    loop = yaml.safe_load((tmp_path / "grid.yaml").read_text())["loop"]
    assert loop["program"] == "bash job.sh {argument_1}" and loop["argument_1"] == [3]
    assert loop["metrics"].keys() == metrics
    assert loop["rows"]["pattern"] == "step {step}: train loss {train_loss}, val loss {val_loss}"


def test_flags_and_numbers_with_the_names_of_columns_get_others(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("for i in range(3):\n    print(f'step {i} error 0.{i}')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        command = "python train.py --seconds 3 --lambda .5"
        sweepd("init", "--from-command", command, exits=0)
        sweepd("launch", "grid.yaml", "--in-process", exits=0)
        [row] = sweepd("sql", "SELECT p_seconds, p_lambda, own_error FROM trials", "--json").rows
    assert row == {"p_seconds": 3, "p_lambda": 0.5, "own_error": 0.2}


def test_a_score_at_the_end_is_preferred_to_a_live_bar(tmp_path: Path) -> None:
    program = "for i in range(9):\n    print(f'\\r{i}/9 [it/s, loss=0.{i}]', end='')\n"
    (tmp_path / "train.py").write_text(program + "print('\\nFinal score: 96.3%')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        sweepd("init", "--from-command", "python train.py", exits=0)
    loop = yaml.safe_load((tmp_path / "grid.yaml").read_text())["loop"]
    assert loop["rows"] == {"final": {"final_score": "Final score: {final_score}"}}


def test_check_shows_the_first_rows_beside_what_they_come_from(tmp_path: Path) -> None:
    shape = SHAPES["argparse with lines of text"]
    swept(tmp_path, shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        said = sweepd("check", "grid.yaml", exits=0).out
    assert '"acc": 0.1667} is from: step 1: lr 1e-3, loss 0.500000, acc 16.67%' in said, said


GUESSED = {
    "argparse with lines of text": {"acc": 1.0, "loss": 1 / 24},
    "click": {"acc": 1.0, "loss": 1 / 24},
    "key=value, with JSON in a file": {"eval_acc": 1.0, "eval_loss": 1 / 24},
    "a live bar on stdout, then one number": {"val_loss": 1 / 24},
    "CSV as Lightning writes it": {"test_accuracy_epoch": 1.0, "train_loss": 1 / 24},
    "wandb.log without a step": {"val_acc": 1.0, "train_loss": 1 / 24},
    "TensorBoard": {"valid_acc": 1.0, "train_loss": 1 / 24},
    "a module of a package": {"acc": 1.0, "validation_loss": 1 / 24},
    "JSON lines, as without `rows`": {"acc": 1.0, "loss": 1 / 24},
}


@pytest.mark.parametrize("name", GUESSED)
def test_a_grid_is_guessed_from_a_command_and_its_trials_have_the_same_numbers(
    name: str, tmp_path: Path
) -> None:
    shape = SHAPES[name]
    for file, text in {"learn.py": LEARN, **shape.files}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    command = shape.program.format(width=8, dir="here")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        sweepd("init", "--from-command", command, exits=0)
        made = {tmp_path / "grid.yaml", tmp_path / "grid.schema.json"}
        assert sorted({*tmp_path.rglob("*")} - made) == before, "it ran in a folder of its own"
        sweepd("launch", "grid.yaml", "--in-process", exits=0)
        [row] = sweepd("sql", "SELECT * FROM trials", "--json").rows
    assert {name: row[name] for name in GUESSED[name]} == pytest.approx(GUESSED[name], abs=1e-3)


def test_a_command_that_tells_nothing_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text("print('done')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        refused = sweepd("init", "--from-command", "python quiet.py", exits=2).err
        failed = sweepd("init", "--from-command", "python -c 1/0", exits=2).err
    assert "looked for JSON lines, wandb.log, CSV, TensorBoard" in refused
    assert "ZeroDivisionError" in failed
