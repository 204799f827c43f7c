"""A secondary loss that punishes every change of expert, and nothing else.

Source: App. apd:lb2 (Thm. thm:lb2); spec 09, section 4.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import FloatArray, check_fraction, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.metrics import check_path, rounds_since_switch
from counterplay.tradeoff.model import AdaptiveSecondary


class SwitchTax(AdaptiveSecondary):
    """An expert costs only ``c`` once it has been played in all of the last ``B`` rounds.

    Use it to see what switching costs: the excess over the rate is exactly
    ``delta * sum over stints of min(length, B)``.

    Parameters
    ----------
    K:
        Number of experts.
    c, delta:
        An expert costs ``c + delta`` in the first ``B`` rounds and whenever it was not played in
        each of the last ``B`` rounds, else ``c``.
    B:
        Rounds it takes to get used to an expert.

    Examples
    --------
    >>> tax = SwitchTax(K=2, c=0.0, delta=0.5, B=2)
    >>> tax.played([0, 0, 0, 1, 1, 1]).tolist()
    [0.5, 0.5, 0.0, 0.5, 0.5, 0.0]
    """

    def __init__(self, K: int, c: float, delta: float, B: int) -> None:
        self.K = check_positive_int(K, "K")
        self.c, self.delta = check_fraction(c, "c"), check_fraction(delta, "delta")
        self.B = check_positive_int(B, "B")
        if self.c + self.delta > 1:
            raise InvalidInputError(f"c + delta must be at most 1, got {self.c + self.delta:g}")

    def __repr__(self) -> str:
        return f"SwitchTax(K={self.K}, c={self.c}, delta={self.delta}, B={self.B})"

    def losses(self, t: int, actions: NDArray[np.integer[Any]]) -> FloatArray:
        """Return the losses of round ``t`` after the given actions."""
        out = np.full(self.K, self.c + self.delta)
        if t >= self.B and (actions[t - self.B : t] == actions[t - 1]).all():
            out[actions[t - 1]] = self.c
        return out

    def played(self, paths: ArrayLike) -> FloatArray:
        """Return the losses suffered along complete paths, shape ``(T,)`` or ``(n_rep, T)``."""
        return np.where(rounds_since_switch(paths) < self.B, self.c + self.delta, self.c)

    def realise(self, path: ArrayLike) -> FloatArray:
        """Return the losses of all experts along one complete path, shape ``(T, K)``."""
        actions = check_path(path, self.K)
        out = np.full((actions.size, self.K), self.c + self.delta)
        settled = np.flatnonzero(rounds_since_switch(actions)[:-1] >= self.B - 1) + 1
        out[settled, actions[settled - 1]] = self.c
        return out
