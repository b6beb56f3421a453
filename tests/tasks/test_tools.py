"""Small helpers that several tasks use: checks of parameters, inverses modulo a prime, and counts
that are too large for a float."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sweepd.tasks.base import as_count, inverses, require_prime, require_range


@dataclass(frozen=True)
class Setting:
    digits: int = 4


def test_parameters_are_checked_by_name() -> None:
    for least, most in ((4, 9), (0, 4)):
        require_range(Setting(), "digits", least, most)
    for least, most in ((5, 9), (0, 3)):
        with pytest.raises(ValueError, match=f"digits = 4: must be from {least} to {most}"):
            require_range(Setting(), "digits", least, most)
    primes = []
    for digits in range(-3, 30):
        try:
            require_prime(Setting(digits), "digits")
            primes.append(digits)
        except ValueError as error:
            assert str(error) == f"digits = {digits}: must be a prime number below 10000"
    assert primes == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    require_prime(Setting(9973), "digits")
    with pytest.raises(ValueError, match="digits = 10007"):
        require_prime(Setting(10007), "digits")


@pytest.mark.parametrize("p", [2, 3, 11, 31])
def test_inverses(p: int) -> None:
    assert inverses(p)[0] == 0
    assert (inverses(p)[1:] * np.arange(1, p) % p == 1).all()


def test_counts_beyond_floats_are_infinite() -> None:
    assert as_count(250) == 250.0
    assert as_count(10**400) == float("inf")
