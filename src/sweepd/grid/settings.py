"""How one trial is trained, checked and stopped: the grid's `train`, `evaluate` and `stop` blocks.

Like tasks and models these are frozen dataclasses of scalars with defaults: any field may be an
axis of a grid, and `__post_init__` raises ValueError for impossible values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Schedule = Literal["wsd", "cosine", "linear", "constant"]
Precision = Literal["fp32", "bf16"]
OFF = {"neutral": None}
"""The metadata of a field that does nothing if it is None (`registry.NEUTRAL`)."""


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
    """The number of steps of linear warm-up."""
    decay: float = 0.2
    """The share of the steps, at the end, in which the rate of `wsd` decays."""
    floor: float = 0.02
    """The last learning rate as a share of the peak rate."""
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 1.0
    """The largest gradient norm. Larger gradients are scaled down to it."""
    precision: Precision = "fp32"
    """The number format of products. With `bf16`, torch's autocast computes products in bfloat16.
    Weights, optimizer and sums stay float32, and so do checks and tests."""
    compile: bool = False
    """Whether training steps on a GPU are recorded as CUDA graphs and replayed. A step is recorded
    once for each shape of a batch."""

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
        """Returns the peak learning rate for a model of width `d`. A model without a width has
        None, and then `lr` must be a plain rate."""
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
    """The number of steps between two checks."""
    check_samples: int = 256
    verdict_samples: int = 1024

    def __post_init__(self) -> None:
        _positive(self, "check_every", "check_samples", "verdict_samples")


@dataclass(frozen=True)
class Plateau:
    """Give up on a trial whose checks stand still: the standard deviation of the goal's metric
    over the last `checks` of them is below `std` (Ray Tune's TrialPlateauStopper)."""

    grace: int
    """The number of steps before which the rule gives up on no trial."""
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
    """The number of steps to the first rung. Each further rung is `reduction` times as far."""
    reduction: float = 4.0
    """At each rung, one in this many competitors passes."""

    def __post_init__(self) -> None:
        _positive(self, "grace")
        if not self.reduction > 1:
            raise ValueError(f"reduction = {self.reduction}: must be above 1")


@dataclass(frozen=True)
class Stop:
    """When a trial ends, besides its last step: `success` and budgets, which tell no lie about it,
    and rules that give up on it."""

    success: float | None = field(default=None, metadata=OFF)
    """The accuracy of a check at which the test sample is drawn. If the test accuracy is also at or
    above it, the trial ends as solved. Otherwise it trains on."""
    tokens: int | None = field(default=None, metadata=OFF)
    """A budget of tokens. The test sample is drawn at the first step by which this many tokens were
    scored."""
    seconds: float | None = field(default=None, metadata=OFF)
    """A budget of training time in seconds, checks included, over all attempts."""
    flops: float | None = field(default=None, metadata=OFF)
    """A budget of training FLOPs. The trial is planned with the number of steps that it pays
    for."""
    plateau: Plateau | None = field(default=None, metadata=OFF)
    asha: Asha | None = field(default=None, metadata=OFF)

    def __post_init__(self) -> None:
        if self.success is not None and not 0 < self.success <= 1:
            raise ValueError(f"success = {self.success}: an accuracy, above 0 and at most 1")
        _positive(
            self, *(n for n in ("tokens", "seconds", "flops") if getattr(self, n) is not None)
        )

    def spent(self, tokens: int, seconds: float) -> bool:
        """Returns whether a budget that is measured, of tokens or seconds, is used up."""
        return (self.tokens is not None and tokens >= self.tokens) or (
            self.seconds is not None and seconds >= self.seconds
        )


def unsolved(mark: float | None, past_mark: float | None, same_checks: bool) -> bool:
    """Returns whether a past run shows that another run of the same weights, whose success mark is
    `mark`, would not have been solved either.

    The past run was not solved at `past_mark`. A mark is None where a run has none. same_checks:
    whether both runs are checked alike.
    """
    return mark is None or (same_checks and past_mark is not None and past_mark <= mark)


def _positive(settings: object, *names: str) -> None:
    for name in names:
        if not getattr(settings, name) > 0:
            raise ValueError(f"{name} = {getattr(settings, name)}: must be positive")
