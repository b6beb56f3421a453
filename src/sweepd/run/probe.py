"""Some steps of a plan's own trials on this machine, by which `plan --probe` judges their time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import Resources, torchs_share
from sweepd.grid.trials import Trial
from sweepd.run.launching import Planned
from sweepd.search.estimate import trial_seconds

WARM_UP, STEPS = 4, 20
"""The number of steps before the measured ones (one is recorded as a graph), and of these."""
MOST_SECONDS = 20.0
"""The seconds after which no further step of a trial is taken."""


def probed(
    planned: Planned, resources: Resources, note: Callable[[str], None]
) -> tuple[float, float]:
    """Measures the smallest and the largest trial that is left of each task and model, and returns
    the least and the most ratio of their times to the middle of the estimate's.

    A time is that of a trial's steps, checks and test. Where trials share a card, the most counts
    its neighbours' turns too. Nothing is kept. `note` is told of each trial. Raises UserError where
    no trial of a model is left or one raises an error, and EnvironmentFailure without a card.
    """
    import torch

    from sweepd.trial.attempt import described, started
    from sweepd.trial.gpu import take_share
    from sweepd.trial.training import Training

    if resources.gpus and not torch.cuda.is_available():
        raise EnvironmentFailure(
            "no card here to probe: run `plan --probe` on a machine like those"
        )
    kinds: dict[object, list[Trial]] = defaultdict(list)
    for trial in planned.standing.todo:
        if not trial.loop_where:
            kinds[trial.classes].append(trial)
    if not kinds:
        raise UserError("nothing to probe: no trial of a task and a model is left")
    torch.set_num_threads(max(1, int(resources.cpus)))
    if resources.gpus:
        total = torch.cuda.get_device_properties(0).total_memory
        take_share(torchs_share(resources.gpus, total))
    ratios = []
    for trials in kinds.values():
        trials.sort(key=lambda trial: (trial.train_flops or 0.0) / trial.train.steps)
        for trial in trials[:1] + trials[1:][-1:]:
            steps, flops = trial.train.steps, trial.train_flops or 0.0
            try:
                base, device = planned.plan.grid.base, "cuda" if resources.gpus else "cpu"
                run = started(trial, base, device)
                assert isinstance(run, Training)
                until = time.monotonic() + MOST_SECONDS
                for taken in range(-WARM_UP, STEPS):
                    if taken == 0:
                        began = time.perf_counter()
                    _, loss = run.train_step()
                    if taken >= 0 and time.monotonic() > until:
                        break
                loss.item()  # waits for the card
                step = (time.perf_counter() - began) / (taken + 1)
                began = time.perf_counter()
                run.check()
                check = time.perf_counter() - began
                run.test_score()
                test = time.perf_counter() - began - check
            except Exception as error:
                raise UserError(f"trial {trial.id}: {described(error)}") from error
            seconds = steps * step + steps // run.evaluation.check_every * check + test
            ratios.append(seconds / (sum(trial_seconds(steps, flops)) / 2))
            note(
                f"{trial.model_name} on {trial.task_name}, {flops / steps:.3g} FLOPs a step: "
                f"{1000 * step:.3g} ms a step, {seconds:.3g} s a trial"
            )
    return min(ratios), max(ratios) / (resources.gpus if 0 < resources.gpus < 1 else 1)
