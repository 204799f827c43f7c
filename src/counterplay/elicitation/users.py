"""Simulated users: exact, noisy, fuzzy.

A user has hidden weights and a hidden precision: two options whose personalised values differ by
at most ``eps`` cannot be told apart.
Source: docs/theory/08-elicitation.md, "Setting".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_fraction,
    check_positive_int,
    check_real,
)
from counterplay.elicitation.comparisons import Answer, Option
from counterplay.errors import AssumptionWarning, InvalidInputError


@checked
class LinearPreferenceUser:
    """A user with linear preferences ``<w, V>`` and a precision.

    Use it to see how many questions a procedure needs and how good its recommendation is.

    Parameters
    ----------
    w:
        Hidden weights, non-negative. Only ``w / eps`` matters for the answers.
    eps:
        Hidden precision. Values that differ by at most ``eps`` are indistinguishable. With
        ``eps=0`` the bisections end only at a cap on the questions.

    Examples
    --------
    >>> user = LinearPreferenceUser(w=[1.0, 0.5], eps=0.1)
    >>> user.compare([0.5, 0.5], [0.6, 0.2]).value, user.compare([0.5, 0.5], [0.6, 0.4]).value
    ('same', 'same')
    >>> user.compare([0.0, 0.0], [0.6, 0.4]).value
    'second'

    References
    ----------
    "Setting", see docs/theory/08-elicitation.md.
    """

    def __init__(self, w: ArrayLike, eps: float) -> None:
        self.w = check_weights(w)
        self.eps = check_real(eps, "eps", low=0.0)
        if 0 < np.linalg.norm(self.w) < 1 - 1e-9:
            warnings.warn(
                f"||w|| = {np.linalg.norm(self.w):.4g} is below 1; the theory measures eps in "
                "units where ||w|| >= 1, so normalise w to compare runs",
                AssumptionWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(w={np.round(self.w, 4).tolist()}, eps={self.eps:g})"

    def value(self, option: Option | ArrayLike) -> float:
        """Return the personalised value of an option."""
        vector = option.value if isinstance(option, Option) else check_float_array(option, "option")
        if vector.shape != self.w.shape:
            raise InvalidInputError(
                f"the option has {vector.size} objectives but the user has {self.w.size} weights"
            )
        return float(vector @ self.w)

    def compare(self, first: Option | ArrayLike, second: Option | ArrayLike) -> Answer:
        """Return the answer; a preference needs a difference of strictly more than ``eps``."""
        return three_valued(self.value(first) - self.value(second), self.eps)

    def choose(self, options: Sequence[Option | ArrayLike]) -> int | None:
        """Return the position of the best option; None if another one is as good (cannot say).

        Examples
        --------
        >>> user = LinearPreferenceUser(w=[1.0, 0.5], eps=0.1)
        >>> user.choose([[0.0, 0.0], [0.6, 0.4], [0.2, 0.2]])
        1
        """
        worth = np.array([self.value(option) for option in options])
        second, best = np.sort(worth)[-2:]
        return int(worth.argmax()) if best - second > self.eps else None


@checked
class NoisyUser(LinearPreferenceUser):
    """A user whose answers are sometimes wrong or whose precision wavers.

    Parameters
    ----------
    w:
        Hidden weights, non-negative.
    eps:
        Hidden precision.
    flip_prob:
        Probability that a strict preference is reported the wrong way round.
    bradley_terry_temperature:
        If given, a strict preference is reported with probability
        ``1 / (1 + exp(-difference / temperature))`` for the first option.
    fuzzy_band:
        The threshold of each question is ``eps * (1 + fuzzy_band * N(0, 1))``, at least 0.
    repeat:
        Ask this user every question ``repeat`` times and report the majority.
    lapse:
        Probability of ticking one of the other options, each as likely.
    position_bias:
        Probability of ticking the first option shown, whatever it is.
    fatigue:
        The probability of a lapse grows by this much with every question, up to ``lapse``.
    probit:
        If given, worth is perceived with normal noise of this standard deviation.
    random_state:
        Seed of the noise.

    Examples
    --------
    >>> user = NoisyUser([1.0, 0.5], 0.01, flip_prob=0.3, random_state=0)
    >>> sum(user.compare([1.0, 0.0], [0.0, 0.0]).value == "first" for _ in range(1000))
    723

    References
    ----------
    "Setting", see docs/theory/08-elicitation.md.
    """

    def __init__(
        self,
        w: ArrayLike,
        eps: float,
        *,
        flip_prob: float = 0.0,
        bradley_terry_temperature: float | None = None,
        fuzzy_band: float = 0.0,
        repeat: int = 1,
        lapse: float = 0.0,
        position_bias: float = 0.0,
        fatigue: float | None = None,
        probit: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(w, eps)
        self.flip_prob = check_fraction(flip_prob, "flip_prob")
        self.fuzzy_band = check_real(fuzzy_band, "fuzzy_band", low=0.0)
        self.temperature = (
            None
            if bradley_terry_temperature is None
            else check_real(
                bradley_terry_temperature, "bradley_terry_temperature", low=0.0, open_low=True
            )
        )
        self.repeat = check_positive_int(repeat, "repeat")
        self.lapse = check_fraction(lapse, "lapse")
        self.position_bias = check_fraction(position_bias, "position_bias")
        self.fatigue = None if fatigue is None else check_fraction(fatigue, "fatigue")
        self.probit = None if probit is None else check_real(probit, "probit", low=0.0)
        self.answered = 0
        self.rng = generator(random_state)

    def compare(self, first: Option | ArrayLike, second: Option | ArrayLike) -> Answer:
        """Return the majority of ``repeat`` noisy answers; ties count as indistinguishable."""
        if self._own_noise():
            chosen = self.choose([first, second])
            if chosen is None:
                return Answer.INDISTINGUISHABLE
            return Answer.SECOND if chosen else Answer.FIRST
        difference = self.value(first) - self.value(second)
        votes = [self._answer_once(difference) for _ in range(self.repeat)]
        counts = {answer: votes.count(answer) for answer in Answer}
        most = max(counts.values())
        leaders = [answer for answer in Answer if counts[answer] == most]
        return leaders[0] if len(leaders) == 1 else Answer.INDISTINGUISHABLE

    def choose(self, options: Sequence[Option | ArrayLike]) -> int | None:
        """Return the position of the option that is ticked; None if two are as good.

        A flip ticks one of the others; temperature, probit, lapse, fatigue and position bias apply
        in this order.
        """
        worth = np.array([self.value(option) for option in options])
        self.answered += 1
        if self.rng.random() < self.position_bias:
            return 0
        second, best = np.sort(worth)[-2:]
        if best - second <= self.eps and self.eps > 0:
            return None
        if self.temperature is not None:
            worth = worth / self.temperature + self.rng.gumbel(size=worth.size)
        if self.probit is not None:
            worth = worth + self.probit * self.rng.standard_normal(worth.size)
        chosen = int(worth.argmax())
        slip = self.lapse if self.fatigue is None else min(self.lapse, self.fatigue * self.answered)
        if self.rng.random() < 1 - (1 - slip) * (1 - self.flip_prob):
            others = [i for i in range(worth.size) if i != chosen]
            chosen = int(self.rng.choice(others))
        return chosen

    def _own_noise(self) -> bool:
        """Whether there is noise that only a choice knows."""
        return bool(self.lapse or self.position_bias or self.probit or self.fatigue)

    def _answer_once(self, difference: float) -> Answer:
        threshold = self.eps
        if self.fuzzy_band:
            threshold = max(0.0, self.eps * (1 + self.fuzzy_band * self.rng.standard_normal()))
        answer = three_valued(difference, threshold)
        if answer is Answer.INDISTINGUISHABLE:
            return answer
        if self.temperature is not None:
            first = self.rng.random() < 1.0 / (1.0 + np.exp(-difference / self.temperature))
            answer = Answer.FIRST if first else Answer.SECOND
        if self.flip_prob and self.rng.random() < self.flip_prob:
            answer = answer.swapped()
        return answer


def three_valued(difference: float, eps: float) -> Answer:
    """Return the exact answer to a value difference at precision ``eps``."""
    if difference > eps:
        return Answer.FIRST
    return Answer.SECOND if difference < -eps else Answer.INDISTINGUISHABLE


def check_weights(w: ArrayLike, name: str = "w") -> FloatArray:
    """Return non-negative weights, not all zero."""
    weights = check_float_array(w, name, ndim=1).copy()
    if (weights < 0).any():
        j = int(np.flatnonzero(weights < 0)[0])
        raise InvalidInputError(f"{name}[{j}] is {weights[j]:g}; weights must not be negative")
    if not weights.any():
        raise InvalidInputError(f"{name} must have at least one positive entry")
    return weights
