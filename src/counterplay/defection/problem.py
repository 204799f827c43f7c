"""A federated problem: several agents, one model, one loss per agent, one vectorised oracle.

Source: docs/theory/05-defection.md, "Setting" (equation (5.1)).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_float_array,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.federated.work import LocalWork

MOST_STEPS = 1_000_000
Oracle = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class FederatedProblem(ABC):
    """``M`` agents with losses ``F_m`` on ``R^d``; the server minimises their mean.

    Subclass it (one method, ``oracle``) or wrap a function with :class:`FunctionProblem`.

    Parameters
    ----------
    n_agents : int
        ``M``, at least 1.
    dimension : int
        ``d``, the number of parameters of the model.
    H : float, optional
        Smoothness constant of every loss.
    L : float, optional
        Lipschitz constant of every loss.
    w_star : array of shape (d,), optional
        A model that is optimal for every agent at once.
    F_star : array of shape (M,), optional
        Smallest loss of every agent; subtracted, so that losses start at zero. Default 0.
    name : str
        For summaries.
    """

    def __init__(
        self,
        n_agents: int,
        dimension: int,
        *,
        H: float | None = None,
        L: float | None = None,
        w_star: ArrayLike | None = None,
        F_star: ArrayLike | None = None,
        name: str = "problem",
    ) -> None:
        self.n_agents = check_positive_int(n_agents, "n_agents")
        self.dimension = check_positive_int(dimension, "dimension")
        self.H = None if H is None else check_real(H, "H", low=0.0, open_low=True)
        self.L = None if L is None else check_real(L, "L", low=0.0, open_low=True)
        self.w_star = None if w_star is None else self.check_point(w_star, "w_star")
        self.F_star = _frozen(np.zeros(self.n_agents) if F_star is None else F_star, "F_star")
        if self.F_star.shape != (self.n_agents,):
            raise InvalidInputError(f"F_star needs one value for each of {self.n_agents} agents")
        self.name = name

    @abstractmethod
    def oracle(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return losses above ``F_star``, shape (M,), and gradients, shape (M, d), at ``w``."""

    def losses(self, w: FloatArray) -> FloatArray:
        """Return the loss of every agent at ``w``."""
        return self.oracle(w)[0]

    def gradients(self, w: FloatArray, ids: IntArray | None = None) -> FloatArray:
        """Return the gradients of the agents ``ids`` (default: all) at ``w``, one per row."""
        gradients = self.oracle(w)[1]
        return gradients if ids is None else gradients[ids]

    def local_gradients(
        self,
        points: FloatArray,
        ids: IntArray,
        batch_size: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> FloatArray:
        """Return the gradient of agent ``ids[i]`` at its own point ``points[i]``.

        ``batch_size`` is for problems with samples; None means all of them.
        """
        if batch_size is not None:
            raise InvalidInputError(f"{self.name} has no samples, so batch_size must be None")
        return np.array([self.gradients(w, np.array([i]))[0] for w, i in zip(points, ids)])

    def as_point(self, w: FloatArray) -> FloatArray:
        """Return ``w`` itself if it is an array of shape (d,), a checked copy otherwise."""
        fits = isinstance(w, np.ndarray) and w.shape == (self.dimension,) and w.dtype.kind == "f"
        return w if fits else self.check_point(w)

    def check_point(self, w: ArrayLike, name: str = "w") -> FloatArray:
        """Return ``w`` as a float64 array of shape (d,), read-only."""
        point = _frozen(w, name)
        if point.shape != (self.dimension,):
            raise InvalidInputError(
                f"{name} must have shape ({self.dimension},), got {point.shape}"
            )
        return point

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, M={self.n_agents}, d={self.dimension})"


@checked
class FunctionProblem(FederatedProblem):
    """A federated problem given by one function from the model to all losses and gradients.

    Use it for losses of your own.

    Parameters
    ----------
    oracle : callable
        ``w -> (F, G)`` with ``F`` of shape (M,) and ``G`` of shape (M, d).
    n_agents : int
        ``M``, at least 1.
    dimension : int
        ``d``, the number of parameters of the model.
    **metadata
        ``H``, ``L``, ``w_star``, ``F_star`` and ``name`` as in :class:`FederatedProblem`.

    Guarantees
    ----------
    Shapes are checked at every call and the agent axis is named when it is wrong. The last
    evaluation is remembered, so that asking for losses and then gradients costs one call.

    Examples
    --------
    >>> target = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> def oracle(w):
    ...     return 0.5 * ((w - target) ** 2).sum(axis=1), w - target
    >>> FunctionProblem(oracle, 2, 2).losses(np.zeros(2)).tolist()
    [0.5, 2.0]

    References
    ----------
    "Setting", see docs/theory/05-defection.md.
    """

    def __init__(self, oracle: Oracle, n_agents: int, dimension: int, **metadata: Any) -> None:
        super().__init__(n_agents, dimension, **metadata)
        self._function = oracle
        self._last: tuple[FloatArray, tuple[FloatArray, FloatArray]] | None = None

    def oracle(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Evaluate the function, or repeat its last answer for the same model object."""
        if self._last is not None and self._last[0] is w:
            return self._last[1]
        F, G = self._function(self.as_point(w))
        if np.shape(F) != (self.n_agents,):
            raise InvalidInputError(
                f"the oracle of {self.name} must return one loss per agent, "
                f"shape ({self.n_agents},), got {np.shape(F)}"
            )
        if np.shape(G) != (self.n_agents, self.dimension):
            raise InvalidInputError(
                f"the oracle of {self.name} must return one gradient row per agent, "
                f"shape ({self.n_agents}, {self.dimension}), got {np.shape(G)}"
            )
        answer = np.asarray(F, dtype=np.float64) - self.F_star, np.asarray(G, dtype=np.float64)
        self._last = (w, answer)
        return answer


@checked
def population_loss(
    problem: FederatedProblem, w: ArrayLike, sample: ArrayLike | None = None
) -> tuple[float, float]:
    """Return the mean loss over a sample of agents and its standard error.

    Use it to judge a model for a population of which only some agents took part; the error
    shrinks like one over the square root of the sample.

    Parameters
    ----------
    problem : FederatedProblem
        The population, or held-out agents of it.
    w : array of shape (d,)
        Model.
    sample : array of int, optional
        Agents to use; default all.

    Examples
    --------
    >>> problem = FunctionProblem(lambda w: (w[0] * np.arange(4.0), np.ones((4, 1))), 4, 1)
    >>> population_loss(problem, [2.0], sample=[1, 3])
    (4.0, 2.0)
    """
    loss = problem.losses(problem.check_point(w))
    chosen = loss if sample is None else loss[check_ids(sample, problem.n_agents, "sample")]
    if len(chosen) < 2:
        raise InvalidInputError("sample needs at least two agents for a standard error")
    return float(chosen.mean()), float(chosen.std(ddof=1) / np.sqrt(len(chosen)))


def check_ids(ids: ArrayLike, n_agents: int, name: str) -> IntArray:
    """Return the numbers of some agents."""
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
        numbers = ids
    else:
        given = check_float_array(ids, name, ndim=1)
        numbers = given.astype(np.int64)
        if (numbers != given).any():
            raise InvalidInputError(f"{name} must be numbers of agents")
    if numbers.size and (numbers.min() < 0 or numbers.max() >= n_agents):
        raise InvalidInputError(f"{name} must be agents between 0 and {n_agents - 1}")
    return numbers


def _frozen(value: ArrayLike, name: str) -> FloatArray:
    array = check_float_array(value, name).copy()
    array.setflags(write=False)
    return array


@checked
def local_updates(
    problem: FederatedProblem,
    w: FloatArray,
    ids: IntArray,
    step_size: float,
    work: LocalWork,
    rng: np.random.Generator | None = None,
    counts: ArrayLike | None = None,
) -> FloatArray:
    """Return ``U_m``, every agent's displacement divided by minus the step size, one row each.

    Examples
    --------
    >>> from counterplay.defection.linear_models import LinearModelProblem
    >>> problem = LinearModelProblem([[[1.0]]], w_star=[0.0], loss="squared")
    >>> local_updates(problem, np.ones(1), np.array([0]), 0.5, LocalWork(steps=2)).tolist()
    [[0.875]]
    """
    w, ids = problem.as_point(w), check_ids(ids, problem.n_agents, "ids")
    check_real(step_size, "step_size", low=0.0, open_low=True)
    K = work.counts(ids) if counts is None else np.asarray(counts, dtype=np.int64)
    if K.shape != ids.shape:
        raise InvalidInputError(f"counts must be one number per agent, got shape {K.shape}")
    check_size(int(K.max(initial=0)), MOST_STEPS, "local steps")
    share = np.where(K > 0, 1.0 / np.maximum(K, 1), 0.0) if work.rescale else np.ones(len(ids))
    points = np.repeat(w[None, :], len(ids), axis=0)
    total = np.zeros_like(points)
    for k in range(int(K.max(initial=0))):
        moving = k < K
        if k == 0 and work.batch_size is None:  # everybody is still at w
            g = problem.gradients(w, ids[moving])
        else:
            g = problem.local_gradients(points[moving], ids[moving], work.batch_size, rng)
        scaled = g * share[moving, None]
        total[moving] += scaled
        points[moving] -= step_size * scaled
    return total
