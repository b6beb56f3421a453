"""How one trial is trained, checked and stopped: the grid's `train`, `evaluate` and `stop` blocks.

Like tasks and models these are frozen dataclasses of scalars with defaults: any field may be an
axis of a grid, and `__post_init__` raises ValueError for impossible values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Schedule = Literal["wsd", "cosine", "linear", "constant"]
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class LrRule:
    """Peak learning rate as a power of the width: `min(max, base · (d / at_d) ** power)`."""

    base: float
    at_d: int = 32
    power: float = -0.5
    max: float = 1e-2

    def __post_init__(self) -> None:
        if not (self.base > 0 and self.at_d > 0 and self.max > 0):
            raise ValueError("base, at_d and max of an lr rule must be positive")

    def at(self, d: int) -> float:
        return float(min(self.max, self.base * (d / self.at_d) ** self.power))


@dataclass(frozen=True)
class Train:
    """AdamW on fresh data: no input is planned to repeat, and its order never depends on `steps`.

    wsd: warm-up, constant, then linear decay over the last `decay` share of the steps, so that a
    trial can be extended from where its decay began. cosine and linear decay from the warm-up's
    end to the last step; constant never decays. All end at `floor` times the peak rate.
    """

    steps: int = 1000
    batch_size: int = 64
    lr: float | LrRule = field(default_factory=lambda: LrRule(base=5e-3))
    schedule: Schedule = "wsd"
    warmup: int = 100
    """steps of linear warm-up"""
    decay: float = 0.2
    """share of the steps, at the end, in which wsd decays"""
    floor: float = 0.02
    """last learning rate as a share of the peak"""
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 1.0
    """largest gradient norm"""
    precision: Precision = "fp32"
    """bf16: torch's autocast computes products in bfloat16; weights, optimizer and sums stay
    float32, and so do checks and tests"""
    compile: bool = False
    """on a GPU: a step is recorded once for each shape of a batch, as a CUDA graph, and replayed"""

    def __post_init__(self) -> None:
        _positive(self, "steps", "batch_size", "clip")
        if isinstance(self.lr, float | int) and not self.lr > 0:
            raise ValueError(f"lr = {self.lr}: must be positive")
        if self.warmup < 0 or self.weight_decay < 0:
            raise ValueError("warmup and weight_decay must not be negative")
        for name in ("decay", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)}: a share, from 0 to 1")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must be in [0, 1)")

    def peak_lr(self, d: int | None) -> float:
        """d: the model's width; None, for a model without one, leaves only plain rates."""
        if not isinstance(self.lr, LrRule):
            return self.lr
        assert d is not None
        return self.lr.at(d)

    @property
    def decay_start(self) -> int:
        """The first step whose rate is below the peak again (`steps` if the rate never falls)."""
        match self.schedule:
            case "wsd":
                return self.steps - round(self.decay * self.steps)
            case "constant":
                return self.steps
            case _:
                return min(self.warmup, self.steps)

    @property
    def extensible(self) -> bool:
        """Whether a longer run passes through the same weights, up to where its decay begins."""
        return self.schedule in ("wsd", "constant")

    @property
    def trunk_end(self) -> int:
        """The last step at which the weights are those of every trial of the same trunk.

        The trunk of an extensible schedule leaves out `steps` and `decay`; that of another one
        includes them, so that the whole run belongs to it.
        """
        return self.decay_start if self.extensible else self.steps


@dataclass(frozen=True)
class Evaluate:
    """Checks on the way, and the test: disjoint samples, both held out from training."""

    check_every: int = 200
    """steps between checks"""
    check_samples: int = 256
    verdict_samples: int = 1024

    def __post_init__(self) -> None:
        _positive(self, "check_every", "check_samples", "verdict_samples")


@dataclass(frozen=True)
class Plateau:
    """Give up on a trial whose checks stand still: the standard deviation of the goal's metric
    over the last `checks` of them is below `std` (Ray Tune's TrialPlateauStopper)."""

    grace: int
    """steps before which no trial is given up"""
    std: float = 0.01
    checks: int = 4

    def __post_init__(self) -> None:
        _positive(self, "grace", "std")
        if self.checks < 2:
            raise ValueError(f"checks = {self.checks}: one check has no spread; at least 2")


@dataclass(frozen=True)
class Asha:
    """Give up on a trial that falls behind its competitors: asynchronous successive halving (Li et
    al., arXiv 1810.05934; Ray Tune's ASHAScheduler). Competitors differ in their seed and in the
    fields that the grid names in `tune` alone."""

    grace: int
    """steps to the first rung; each next one is `reduction` times as far"""
    reduction: float = 4.0
    """one in how many competitors passes a rung"""

    def __post_init__(self) -> None:
        _positive(self, "grace")
        if not self.reduction > 1:
            raise ValueError(f"reduction = {self.reduction}: must be above 1")


@dataclass(frozen=True)
class Stop:
    """When a trial ends, besides its last step: `success` and budgets, which tell no lie about it,
    and rules that give up on it."""

    success: float | None = None
    """accuracy of a check at which the test sample is drawn; the trial is solved if that is
    also at or above it, and trains on otherwise"""
    tokens: int | None = None
    """budget: the test sample is drawn at the first step at which that many tokens were scored"""
    seconds: float | None = None
    """budget of training time, checks included, over all attempts"""
    flops: float | None = None
    """budget of training FLOPs: the trial is planned with the steps that it pays for"""
    plateau: Plateau | None = None
    asha: Asha | None = None

    def __post_init__(self) -> None:
        if self.success is not None and not 0 < self.success <= 1:
            raise ValueError(f"success = {self.success}: an accuracy, above 0 and at most 1")
        _positive(
            self, *(n for n in ("tokens", "seconds", "flops") if getattr(self, n) is not None)
        )

    def spent(self, tokens: int, seconds: float) -> bool:
        """Whether a budget that is measured is used up."""
        return (self.tokens is not None and tokens >= self.tokens) or (
            self.seconds is not None and seconds >= self.seconds
        )


def unsolved(mark: float | None, past_mark: float | None, same_checks: bool) -> bool:
    """Whether a run that was not solved at `past_mark` shows that one of the same weights, whose
    mark is `mark`, would not have been solved either."""
    return mark is None or (same_checks and past_mark is not None and past_mark <= mark)


def _positive(settings: object, *names: str) -> None:
    for name in names:
        if not getattr(settings, name) > 0:
            raise ValueError(f"{name} = {getattr(settings, name)}: must be positive")
