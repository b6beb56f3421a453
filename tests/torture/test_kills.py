"""A launch that is killed loses nothing. It is killed at every step of writing, at random moments,
and by power cuts.

This is the layer below Ray (`torture.tiny`), in processes that SIGKILL ends. The rest of the
program is in `test_whole_program.py`.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from torture.survival import Rows, outcome, survive
from torture.zygote import Zygote

KILLS = Counter[str]()
Undisturbed = tuple[list[str], tuple[Rows, Rows]]
"""its steps of writing, and what it left"""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote
    print(f"\nkills: {dict(KILLS)}")  # noqa: T201


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    root = tmp_path_factory.mktemp("undisturbed")
    done, steps = zygote.run(root / "store", root / "told")
    assert done
    return steps, outcome(root / "store")


def test_at_every_step_of_writing(zygote: Zygote, undisturbed: Undisturbed, tmp_path: Path) -> None:
    steps, expected = undisturbed
    for at, name in enumerate(steps):
        root = tmp_path / str(at)
        root.mkdir()
        assert survive(zygote, root, [{"at": at}], expected) == 1, name
    KILLS["at a step of writing"] += len(steps)


@pytest.mark.parametrize("seed", range(60))
def test_power_cuts_at_random_steps(
    zygote: Zygote, undisturbed: Undisturbed, tmp_path: Path, seed: int
) -> None:
    steps, expected = undisturbed
    rng = random.Random(seed)
    (tmp_path / "store").mkdir()
    kills = [{"at": rng.randrange(len(steps)), "power": rng.random()} for _ in range(3)]
    KILLS["power cut"] += survive(zygote, tmp_path, kills, expected)


@pytest.mark.parametrize("seed", range(40))
def test_at_random_instants_again_and_again(
    zygote: Zygote, undisturbed: Undisturbed, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    kills = [
        {"after": rng.uniform(0, 0.4), "checkpoint_seconds": rng.choice([0.0, 0.02, 1e9])}
        for _ in range(4)
    ]
    KILLS["at a random instant"] += survive(zygote, tmp_path, kills, undisturbed[1])
