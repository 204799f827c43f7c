"""People slip: what is assumed about wrong answers, and the bet against one preference.

A preference that the person does not have must bet against the person. Before each answer a
forecast is made; a preference that an answer contradicts gains, one that it agrees with loses, and
both are truncated so that nobody is rewarded for a person who errs less than the bound.
Source: docs/theory/26-people.md, "Theorem 26.1: one bet per preference".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import InvalidInputError

LARGEST_LAPSE, LARGEST_TEMPERATURE = 0.25, 0.08
"""Largest lapse and temperature of the answer model."""


@checked
@dataclass(frozen=True)
class AtMost:
    """At most this share of the answers given are wrong, whatever the pattern.

    Parameters
    ----------
    rate:
        Largest probability of a wrong answer, given everything before and that the question is
        answered. Several rates make a ladder: each gets its share of the error probability from
        the start, and the next one is used once no preference explains the answers at the one
        before.
    jnd:
        Just noticeable difference, in units of worth (values from 0 to 1, weights that sum to 1).
        Options that are closer may be confused as often as a coin would.
    running:
        Whether a preference that was excluded once stays excluded. That is valid as well and saves
        two or three questions; for people who err far more often than ``rate`` it makes more false
        certificates.

    Examples
    --------
    >>> AtMost(0.1).rates
    (0.1,)
    >>> AtMost((0.1, 0.2)).rates
    (0.1, 0.2)

    References
    ----------
    Theorem 26.1, see docs/theory/26-people.md.
    """

    rate: float | tuple[float, ...] = 0.1
    jnd: float = 0.0
    running: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.rate, list):
            object.__setattr__(self, "rate", tuple(self.rate))
        check_real(self.jnd, "jnd", low=0.0, high=1.0)
        if not self.rates:
            raise InvalidInputError("errors needs at least one rate, such as AtMost(0.1)")
        for rate in self.rates:
            if not 0 <= rate < 0.5:
                raise InvalidInputError(
                    "errors must be a probability below 0.5: a person who is wrong half the time "
                    f"tells nothing; got {rate:g}"
                )
        if any(b <= a for a, b in zip(self.rates, self.rates[1:])):
            raise InvalidInputError(f"the rates of a ladder must rise, got {self.rates}")

    @property
    def rates(self) -> tuple[float, ...]:
        """The bounds to try, one after the other."""
        return tuple(map(float, self.rate if isinstance(self.rate, tuple) else (self.rate,)))

    def told(self, number: int = 0) -> str:
        """Return the condition in words, for the bound in use."""
        close = f"; options closer than {self.jnd:g} may be confused" if self.jnd else ""
        return f"if at most {100 * self.rates[number]:.3g} % of the answers given are wrong{close}"


@checked
@dataclass(frozen=True)
class Unknown:
    """The rate of wrong answers is not known: it is learned, under a model of answers.

    With an unknown lapse the person ticks another option at random, otherwise the choice is a
    logit with an unknown temperature; both are learnt from the answers. It is a model: use it when
    no bound can be stated. It needs more questions than ``AtMost(0.1)``.

    Examples
    --------
    >>> Unknown().told()
    'if answers follow the model (lapse at most 0.25, temperature at most 0.08)'

    References
    ----------
    "Unknown noise", see docs/theory/26-people.md.
    """

    def told(self, number: int = 0) -> str:
        """Return the condition in words."""
        return (
            f"if answers follow the model (lapse at most {LARGEST_LAPSE:g}, temperature at most "
            f"{LARGEST_TEMPERATURE:g})"
        )


@checked
def bet_factor(forecast: float, contradicted: bool, rate: float, *, close: bool = False) -> float:
    """Return the factor by which one answer changes the evidence against one preference.

    Parameters
    ----------
    forecast:
        Probability that was given to the answer before it was heard.
    contradicted:
        Whether the preference would call the answer wrong.
    rate:
        Bound on the probability of a wrong answer.
    close:
        Whether two options were shown that differ by no more than the just noticeable difference
        under the preference: then the bound is one half.

    Examples
    --------
    >>> bet_factor(0.5, True, 0.1), round(bet_factor(0.5, False, 0.1), 4)
    (5.0, 0.5556)
    >>> bet_factor(0.95, False, 0.1)
    1.0
    """
    p = check_real(forecast, "forecast", low=0.0, high=1.0, open_low=True)
    q = 0.5 if close else check_real(rate, "rate", low=0.0, high=0.5)
    if contradicted:
        return max(1.0, p / q) if q > 0 else np.inf
    return min(1.0, p / (1.0 - q))


def bet_levels(p: float, rate: float, pair: bool) -> FloatArray:
    """Return the logarithm of the factor for a clear agreement, a close one, a close
    contradiction and a clear contradiction; it rises from left to right."""
    log_p = np.log(p)
    agreed = log_p - np.log(max(p, 1.0 - rate))
    against = log_p - np.log(max(min(p, rate), 1e-300))
    if not pair:  # closeness excuses everything in larger sets
        return np.array([agreed, agreed, agreed, against])
    return np.array([agreed, log_p - np.log(max(p, 0.5)), log_p - np.log(min(p, 0.5)), against])
