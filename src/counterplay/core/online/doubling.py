"""The doubling trick: a learner tuned for a known horizon becomes one for every horizon.

The learner is restarted on blocks of 1, 2, 4, ... rounds, each time tuned for the block. Its regret
is then of the right order after every number of rounds.
Source: docs/theory/09-tradeoff.md, "Proposition 9.J: anytime learners".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import Int32Array, LazyChain, concatenate
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.shrinking_dartboard import ShrinkingDartboard
from counterplay.core.online.stored import require
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray


@checked
class Doubling(ScalarLearner):
    """Restart a learner on blocks of 1, 2, 4, ... rounds, tuned for each block.

    Use it where the regret must be small after every number of rounds, not only at the end: for
    example when experts are switched off at times nobody knows in advance.

    Parameters
    ----------
    base:
        The learner to restart; ``ShrinkingDartboard`` by default.

    Notes
    -----
    With ``ShrinkingDartboard`` the regret after every number ``m`` of rounds is at most
    ``6.83 sqrt(m ln K)``.

    Examples
    --------
    Expert 0 is perfect for 60 of 4000 rounds; tuned for 4000, the learner barely starts to move:

    >>> import numpy as np
    >>> losses = np.ones((60, 16))
    >>> losses[:, 0] = 0
    >>> fixed = ShrinkingDartboard().marginals(losses, horizon=4000)
    >>> anytime = Doubling().marginals(losses)
    >>> [round(float((p * losses).sum()), 1) for p in (fixed, anytime)]
    [51.8, 24.4]

    References
    ----------
    N. Cesa-Bianchi, G. Lugosi, Prediction, Learning, and Games, 2006, section 2.3.
    """

    _state: ClassVar[tuple[str, ...]] = (*ScalarLearner._state, "_block_end")
    _block_end: int

    def __init__(self, base: ScalarLearner | None = None) -> None:
        self.base = ShrinkingDartboard() if base is None else base
        self._range = self.base._range

    def _start(self) -> None:
        self.base.reset(self.K, 1, self._rng)
        self._block_end = 1

    def _check_parts(self, fresh: Doubling) -> None:
        length = 1 << (self.rounds + 1).bit_length() - 1  # of the block of the coming round
        require(self._block_end == 2 * length - 1, self, "_block_end", f"must be {2 * length - 1}")
        found = (self.base.K, self.base.horizon, self.base.rounds, self.base._choice)
        wanted = (self.K, length, self.rounds + 1 - length, self._choice)
        require(found == wanted, self, "base", "must be in the same round of its block")
        require(self.base._rng is self._rng, self, "base", "must share the generator")

    def probs(self) -> FloatArray | None:
        """Return the probabilities of the current block's learner."""
        self._check_started()
        return self.base.probs()

    def _draw(self) -> int:
        return self.base.act()

    def _learn(self, loss: FloatArray) -> None:
        self.base.observe(loss)
        if self.rounds + 1 == self._block_end:
            self.base.reset(self.K, self._block_end + 1, self._rng)
            self._block_end = 2 * self._block_end + 1

    def marginals(
        self, losses: ArrayLike, *, horizon: int | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Return the exact probabilities in every round; ``horizon`` plays no role."""
        matrix = self._matrix(losses)
        result = np.empty_like(matrix) if out is None else out
        for rows, length in _blocks(len(matrix)):
            result[rows] = self.base.marginals(matrix[rows], horizon=length)
        return result

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the law of the path: the blocks' chains, each with a fresh first draw."""
        matrix = self._matrix(losses)
        blocks = _blocks(len(matrix))
        return concatenate([self.base.chain(matrix[r], horizon=length) for r, length in blocks])

    def sample(
        self,
        losses: ArrayLike,
        replicates: int = 1,
        *,
        horizon: int | None = None,
        random_state: RandomState = None,
    ) -> Int32Array:
        """Draw ``replicates`` paths at once, block by block."""
        matrix, rng = self._matrix(losses), generator(random_state)
        parts = [
            self.base.sample(matrix[rows], replicates, horizon=length, random_state=rng)
            for rows, length in _blocks(len(matrix))
        ]
        return np.concatenate(parts, axis=1)

    def expected_switches(self, losses: ArrayLike, *, horizon: int | None = None) -> float:
        """Return the exact expected number of switches; a restart draws independently."""
        matrix, total = self._matrix(losses), 0.0
        before: FloatArray | None = None
        for rows, length in _blocks(len(matrix)):
            total += self.base.expected_switches(matrix[rows], horizon=length)
            inside = self.base.marginals(matrix[rows], horizon=length)
            total += 0.0 if before is None else 1.0 - float(before @ inside[0])
            before = inside[-1]
        return total


def _blocks(rounds: int) -> Iterator[tuple[slice, int]]:
    """Yield the rows of every block and the length it is tuned for."""
    start, length = 0, 1
    while start < rounds:
        yield slice(start, min(start + length, rounds)), length
        start, length = start + length, 2 * length
