"""The objects of the problem: two losses per expert and round, a tolerated rate, a burst budget.

Every round each expert has a primary loss (what the decision maker is judged on) and a secondary
loss (what the people affected suffer). The secondary loss may exceed the rate ``c`` by at most
``delta * T**alpha`` on any interval.
Source: docs/theory/09-tradeoff.md, "Setting".
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.online.exponential import all_inside, first_outside
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    array_fault,
    check_choice,
    check_float_array,
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
    check_same_shape,
    check_size,
    shorten,
)
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tables import Table

MOST_EXPERTS = 1_000_000
MOST_EPOCHS = 10**7  # their starts are written down
MOST_CELLS = 10**8  # of a table of choices or losses
MOST_ROUNDS = 10**12
MOST_LOSSES = 30_000_000

EpochRule = Literal["thesis", "balanced"] | int


@checked
@dataclass(frozen=True)
class Instance:
    """A bicriteria problem: losses, tolerated rate and burst budget.

    Parameters
    ----------
    l1:
        Primary losses, shape ``(T, K)``, in [0, 1].
    l2:
        Secondary losses of the same shape, or an ``AdaptiveSecondary`` that reacts to the play.
    c:
        Tolerated secondary loss per round, in [0, 1].
    delta:
        Burst budget: at most ``delta * T**alpha`` above the rate ``c`` on any interval.
    alpha:
        Exponent of the burst budget.
    meta:
        What else is known about the instance.

    Examples
    --------
    >>> import numpy as np
    >>> instance = Instance(np.zeros((100, 2)), np.full((100, 2), 0.1), c=0.1, delta=0.5, alpha=0.5)
    >>> instance.threshold
    5.0
    """

    l1: FloatArray = field(repr=False)
    l2: FloatArray | AdaptiveSecondary = field(repr=False)
    c: float
    delta: float
    alpha: float
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.l2, AdaptiveSecondary):
            primary = check_loss_matrix(self.l1, "primary")
        else:
            primary, secondary = check_losses(self.l1, self.l2)
            object.__setattr__(self, "l2", _read_only(secondary))
        object.__setattr__(self, "l1", _read_only(primary))
        object.__setattr__(self, "c", check_fraction(self.c, "c"))
        object.__setattr__(self, "delta", check_fraction(self.delta, "delta"))
        object.__setattr__(self, "alpha", check_fraction(self.alpha, "alpha"))
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.l1.shape[0])

    @property
    def K(self) -> int:
        """Number of experts."""
        return int(self.l1.shape[1])

    @property
    def threshold(self) -> float:
        """The burst budget ``delta * T**alpha``, never rounded."""
        return float(self.delta * float(self.rounds) ** self.alpha)

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy cannot be pickled
        fields = (self.l1, self.l2, self.c, self.delta, self.alpha, dict(self.meta))
        return (Instance, fields)


class AdaptiveSecondary(ABC):
    """Secondary losses that react to the experts played so far.

    Subclass it, or wrap a plain function with ``CallableSecondary``. Sound only for learners that
    never look at the secondary loss; see ``EpochLearner``.

    Examples
    --------
    >>> from counterplay.tradeoff.instances import SwitchTax
    >>> isinstance(SwitchTax(K=2, c=0.2, delta=0.5, B=10), AdaptiveSecondary)
    True
    """

    K: int

    @abstractmethod
    def losses(self, t: int, actions: NDArray[np.integer[Any]]) -> FloatArray:
        """Return the losses of all experts in round ``t`` after the ``actions`` before it."""

    def played(self, paths: ArrayLike) -> FloatArray:
        """Return the losses suffered along paths of shape ``(T,)`` or ``(replicates, T)``."""
        array = check_path(paths, self.K)
        flat = array.reshape(-1, array.shape[-1])
        suffered = np.empty(flat.shape)
        for r, path in enumerate(flat):
            for t in range(path.size):
                suffered[r, t] = self.losses(t, path[:t])[path[t]]
        return suffered.reshape(array.shape)

    def realise(self, path: ArrayLike) -> FloatArray:
        """Return the losses of all experts along one complete path, shape ``(T, K)``."""
        actions = check_path(path, self.K)
        if actions.ndim != 1:
            raise InvalidInputError(f"path must be one path, got shape {actions.shape}")
        return np.array([self.losses(t, actions[:t]) for t in range(actions.size)])


@checked
class CallableSecondary(AdaptiveSecondary):
    """An adaptive secondary loss given by a function of the round and the actions before it.

    Parameters
    ----------
    function:
        ``function(t, actions[:t])`` returns the vector of ``K`` losses of round ``t``.
    K:
        Number of experts.

    Examples
    --------
    Repeating the last action is harmless, changing it hurts:

    >>> import numpy as np
    >>> def tax(t, actions):
    ...     return np.where(np.arange(2) == actions[-1], 0.0, 1.0) if t else np.zeros(2)
    >>> CallableSecondary(tax, K=2).played([0, 0, 1, 1]).tolist()
    [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(
        self, function: Callable[[int, NDArray[np.integer[Any]]], ArrayLike], K: int
    ) -> None:
        if not callable(function):
            raise InvalidInputError(f"function must be callable, got {function!r}")
        self.function = function
        self.K = check_positive_int(K, "K")
        check_size(self.K, MOST_EXPERTS, "experts")

    def __repr__(self) -> str:
        return f"CallableSecondary({getattr(self.function, '__name__', 'function')}, K={self.K})"

    def losses(self, t: int, actions: NDArray[np.integer[Any]]) -> FloatArray:
        """Return the losses of round ``t``."""
        try:
            answer = self.function(t, actions)
        except Exception as error:
            raise InvalidInputError(
                f"the adaptive secondary loss failed in round {t}: {shorten(error, 160)}"
            ) from error
        vector = check_float_array(answer, "secondary losses", ndim=1)
        if vector.size != self.K:
            raise InvalidInputError(
                f"the adaptive secondary loss returned {vector.size} values in round {t}, "
                f"expected {self.K}"
            )
        return check_loss_matrix(vector[None, :], "secondary").reshape(-1)


@checked
@dataclass(frozen=True)
class EpochGrid:
    """Rounds cut into epochs of length B; the last one may be shorter.

    Examples
    --------
    >>> EpochGrid.from_rule(10_000, "thesis", alpha=0.5)
    EpochGrid(rounds=10000, B=100)
    >>> EpochGrid(10, 4).E
    3
    """

    rounds: int
    B: int

    def __post_init__(self) -> None:
        check_positive_int(self.rounds, "rounds")
        if not 1 <= check_int(self.B, "B") <= self.rounds:
            raise InvalidInputError(
                f"B must be between 1 and {shorten(self.rounds, 60)} rounds, "
                f"got {shorten(self.B, 60)}"
            )

    @classmethod
    def from_rule(
        cls,
        rounds: int,
        B: EpochRule = "thesis",
        *,
        alpha: float | None = None,
        threshold: float | None = None,
    ) -> EpochGrid:
        """Choose the epoch length.

        Parameters
        ----------
        rounds:
            Number of rounds.
        B:
            ``"thesis"``: ``round(T**alpha)``. ``"balanced"``: ``round(threshold)``, which makes
            both regret bounds equal. Or the length itself.
        alpha:
            Exponent of the burst budget; needed by ``"thesis"``.
        threshold:
            The burst budget itself; needed by ``"balanced"``.
        """
        rounds = check_positive_int(rounds, "rounds")
        if isinstance(B, str):
            check_choice(B, "B", ("thesis", "balanced"))
            if B == "thesis":
                if alpha is None:
                    raise InvalidInputError("B='thesis' needs alpha; pass it, or B as an integer")
                length = float(rounds) ** check_fraction(alpha, "alpha")
                if alpha == 1:
                    _warn_one_epoch()
            else:
                if threshold is None:
                    raise InvalidInputError("B='balanced' needs threshold; pass it, or an integer")
                length = check_real(threshold, "threshold", low=0.0)
            return cls(rounds, int(min(rounds, max(1, round(length)))))
        return cls(rounds, B)

    @property
    def E(self) -> int:
        """Number of epochs."""
        return -(-self.rounds // self.B)

    @property
    def starts(self) -> IntArray:
        """First round of every epoch."""
        check_size(self.E, MOST_EPOCHS, "epochs")
        return np.arange(0, self.rounds, self.B)

    def epoch_of(self, t: int) -> int:
        """Return the epoch of round ``t``, both counted from zero."""
        return t // self.B


@checked
def burst_threshold(rounds: int, delta: float, alpha: float) -> float:
    """Return the burst budget ``delta * T**alpha``; warns where it promises nothing.

    Examples
    --------
    >>> burst_threshold(10_000, 0.5, 0.5)
    50.0
    """
    rounds = check_positive_int(rounds, "rounds")
    budget = check_fraction(delta, "delta") * float(rounds) ** check_fraction(alpha, "alpha")
    if alpha == 1:
        _warn_one_epoch()
    if budget < 1:
        warnings.warn(
            f"the burst budget delta * T**alpha = {budget:.3g} is below one round; "
            f"raise delta or alpha",
            AssumptionWarning,
            stacklevel=2,
        )
    return float(budget)


def _warn_one_epoch() -> None:
    warnings.warn(
        "alpha = 1 makes one single epoch and all bounds trivial; choose alpha below 1",
        AssumptionWarning,
        stacklevel=3,
    )


def check_losses(l1: ArrayLike, l2: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return both loss arrays checked: same shape ``(T, K)``, finite, in [0, 1].

    Columns of two frames are matched by name: the second follows the order of the first.
    """
    if _is_frame(l1) and _is_frame(l2):
        names = Table.of(l1, what="primary losses").names
        other = Table.of(l2, what="secondary losses")
        if names is not None and other.names is not None:
            l2 = other.select(names).numbers()
    first, second = check_loss_matrix(l1, "primary"), check_loss_matrix(l2, "secondary")
    check_same_shape(first, second, ("primary losses", "secondary losses"))
    return first, second


def check_loss_matrix(losses: ArrayLike, which: str) -> FloatArray:
    """Return a loss array ``(T, K)`` in [0, 1]; overshoots up to 1e-12 are clipped."""
    if _is_frame(losses):
        losses = Table.of(losses, what=f"{which} losses").numbers()
    array = as_losses(losses, which)
    if array.ndim != 2 or np.ndim(losses) != 2:
        raise InvalidInputError(f"{which} losses must have 2 axes, got shape {np.shape(array)}")
    if array.size == 0:
        raise InvalidInputError(f"{which} losses must not be empty, got shape {array.shape}")
    if all_inside(array.reshape(-1), 0.0, 1.0):
        return array
    bad = first_outside(array.reshape(-1), 0.0, 1.0)
    if bad >= 0:
        row, expert = divmod(bad, array.shape[1])
        value = array[row, expert]
        if not np.isfinite(value):
            where = f"entry ({row}, {expert})"
            raise InvalidInputError(f"{which} losses must be finite; {where} is {value}")
        shown = f"{value:.2f}" if abs(value) < 1e6 else f"{value:.3g}"
        raise InvalidInputError(
            f"{which} losses must lie in [0,1]; row {row} expert {expert} is {shown}"
        )
    return np.clip(array, 0.0, 1.0)


def _is_frame(losses: Any) -> bool:
    """Whether losses come in a frame or a sparse matrix, which ``Table`` reads."""
    return any(hasattr(losses, mark) for mark in ("columns", "column_names", "tocsr"))


def expert_names(losses: Any) -> tuple[str, ...] | None:
    """Return the names that the columns of a frame give to the experts."""
    return Table.of(losses).names if _is_frame(losses) else None


def check_game_size(rounds: int, K: int) -> None:
    """Refuse a table of losses that is too large, before it is made."""
    cells = check_positive_int(rounds, "rounds") * check_positive_int(K, "K")
    check_size(cells, MOST_LOSSES, "losses (rounds times experts)")


def as_losses(losses: Any, which: str) -> FloatArray:
    """Return losses as an array of floats; text, dates and the like are no numbers."""
    if isinstance(losses, np.ndarray) and losses.dtype == np.float64:
        return np.ascontiguousarray(losses)
    if fault := array_fault(losses, kinds="biuf"):
        raise InvalidInputError(f"{which} losses must be an array of numbers: {fault}")
    try:
        return np.ascontiguousarray(losses, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{which} losses must be an array of numbers: {shorten(error, 120)}"
        ) from None


def check_path(path: ArrayLike, K: int | None = None) -> NDArray[np.int64]:
    """Return a path of expert numbers, each in ``0..K-1``."""
    what = "a path must be a non-empty array of expert numbers (integers)"
    if fault := array_fault(path, kinds="iu"):
        raise InvalidInputError(f"{what}: {fault}")
    array = np.asarray(path)
    if array.ndim == 0 or array.size == 0 or array.dtype.kind not in "iu":
        raise InvalidInputError(what)
    if array.min() < 0 or (K is not None and array.max() >= K):
        bad = int(array.min()) if array.min() < 0 else int(array.max())
        top = "K-1" if K is None else K - 1
        raise InvalidInputError(f"a path must contain expert numbers 0..{top}, got {bad}")
    return array.astype(np.int64, copy=False)


def check_active(active: ArrayLike, rounds: int, K: int) -> BoolArray:
    """Return an activity mask ``(T, K)`` in which every round has an active expert."""
    fault = array_fault(active, kinds="b")
    mask = np.zeros(0) if fault else np.asarray(active)
    if mask.dtype != np.bool_ or mask.shape != (rounds, K):
        raise InvalidInputError(
            f"active must be a boolean array of shape ({rounds}, {K}), "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    empty = ~mask.any(axis=1)
    if empty.any():
        raise InvalidInputError(empty_message(int(empty.argmax())))
    return np.ascontiguousarray(mask)


def empty_message(round_number: int) -> str:
    """The sentence for a round in which nobody is left."""
    return (
        f"round {round_number}: every expert is deactivated; raise delta, raise c, "
        f"or pass on_empty='least_bad'"
    )


def exceeds(value: FloatArray, threshold: float) -> BoolArray:
    """Whether a sum is strictly above a threshold, with slack for rounding (1e-9, relative)."""
    result: BoolArray = value > limit_of(threshold)
    return result


def limit_of(threshold: float) -> float:
    """The number a sum must exceed to count as above the threshold."""
    return threshold + 1e-9 * max(1.0, threshold)


def _read_only(array: FloatArray) -> FloatArray:
    view = array.view()
    view.setflags(write=False)
    return view
