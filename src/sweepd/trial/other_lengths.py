"""Training that, once its model is trained, also scores it at other lengths: on longer rows of the
same task.

Nothing is trained for this. The weights are loaded into a model that has room for the longer rows.
In all else that model is built for the length of training: a block of `sparse` stays as wide as it
was. Rows are drawn as those of the test are: from the same generator, and from inputs that are held
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from sweepd.grid import lengths
from sweepd.grid.axes import reason
from sweepd.grid.metrics import directions
from sweepd.models.base import Model
from sweepd.tasks.base import Split, Task
from sweepd.trial.evaluation import Score, evaluate
from sweepd.trial.runs import Result
from sweepd.trial.training import Stream, Training, generator


class ScoredLonger(Training):
    """A `Training` whose result has scores at other lengths too, each a column of its own."""

    def __init__(
        self, factors: Sequence[float], task: Task, architecture: Model, *rest: Any
    ) -> None:
        super().__init__(task, architecture, *rest)
        self.factors, self.architecture = factors, architecture

    def ended(self, status: str, score: Score) -> Result:
        """Returns the result with the scores at other lengths that could be measured. It keeps its
        test score in any case. Its `notes` say which scores could not be measured, and why."""
        result = super().ended(status, score)
        if self.score is None:
            return result
        scores, notes = self.other_scores()
        self.score = replace(self.score, own={**self.score.own, **scores})
        return replace(result, columns=self.score.columns(), notes=tuple(notes))

    def other_scores(self) -> tuple[dict[str, float], list[str]]:
        """Returns the scores at other lengths by column, and why others could not be measured."""
        metric = lengths.scored(directions(self.task.metrics))
        scores: dict[str, float] = {}
        notes: list[str] = []
        if metric is None:
            return scores, notes
        for factor in self.factors:
            name = lengths.column(metric, factor)
            try:
                scores[name] = getattr(self.score_at(factor), metric)
            except Exception as error:  # a user's model may raise anything on longer rows
                notes.append(f"no {name}: {reason(error)}")
        return scores, notes

    def score_at(self, factor: float) -> Score:
        """Returns the score of the present weights on the task at `factor` times its length. Raises
        ValueError where the task has other words there, or the model other weights."""
        there = lengths.longer(self.task, factor)
        words, longer_words = tuple(self.task.vocab), tuple(there.vocab)
        if words != longer_words:
            counts = f"{len(longer_words)} words in place of {len(words)}"
            other = counts if len(words) != len(longer_words) else "other words"
            raise ValueError(f"the vocabulary of {there} has {other}")
        # The weights come from the trained model: the generator decides nothing.
        model = self.architecture.build(
            len(words), self.task.L, there.capacity, torch.Generator()
        ).to(self.device)
        trained, roomier = self.model.state_dict(), model.state_dict()
        for name in {**trained, **roomier}:
            shapes = [getattr(state.get(name), "shape", None) for state in (trained, roomier)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"the weight `{name}` depends on how long a row may be, as learned positions do"
                )
        model.load_state_dict(trained)
        count = lengths.rows(self.task, there, self.evaluation.verdict_samples)
        sample = there.sample(generator(self.seed, Stream.TEST, self.step), count, Split.TEST)
        sample.check(count)
        return evaluate(model, there, sample)
