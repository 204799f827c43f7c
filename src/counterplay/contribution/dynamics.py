"""Best-response dynamics: what happens when the parties adjust in turn, at once, or half-way.

The existence of stable plans is proved by a fixed-point theorem, which gives no algorithm. Moving
in turn works for symmetric linear games and, as far as we have seen, for coverage; it cycles on
directed games. The fallback is a semismooth Newton method on the complementarity conditions:
``0 <= theta``, ``u(theta) >= mu`` and, party by party, one of the two with equality.
Source: Lemma 4.1, "Best-response dynamics", Proposition 4.G, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.audit import Allocation, allocation, stability_report
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.game import CollabGame, Tolerances
from counterplay.core.arguments import checked
from counterplay.core.figures import axes_or_new
from counterplay.core.seeds import RandomState, generator
from counterplay.core.transcript import Transcript
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_open_fraction,
    check_positive_int,
)
from counterplay.errors import ConvergenceError, InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Mode = Literal["sequential", "simultaneous", "damped"]
_MEMORY = 8


class NonConvergence(ConvergenceError):
    """Best responses did not settle; ``cycle`` lists the repeating plans if there are any."""

    def __init__(self, message: str, *, cycle: Sequence[FloatArray] = ()) -> None:
        super().__init__(message)
        self.cycle = tuple(cycle)


@checked
@dataclass(frozen=True)
class DynamicsTranscript(Transcript):
    """Where best responses ended and how they got there: one row per sweep, the start first."""

    allocation: Allocation = field(kw_only=True)

    @classmethod
    def of(cls, mode: str, history: FloatArray, plan: Allocation) -> DynamicsTranscript:
        """Return the transcript of a run from the plans after each sweep, the start first."""
        moved = np.concatenate([[0.0], abs(np.diff(history, axis=0)).max(axis=1)])
        columns = {"theta": history, "total": history.sum(axis=1), "moved": moved}
        return cls(columns, {"mode": mode, "parties": history.shape[1]}, allocation=plan)

    @property
    def theta(self) -> FloatArray:
        """The final plan."""
        return self.allocation.theta

    @property
    def mode(self) -> str:
        """How the parties moved; ``"ncp"`` if Newton's method had to help."""
        return str(self.meta["mode"])

    @property
    def sweeps(self) -> int:
        """Number of sweeps until nobody moved."""
        return 0 if self.mode == "ncp" else len(self) - 1

    def summary(self) -> str:
        """Return one line."""
        end = self.allocation.summary().splitlines()[0]
        return f"{self.mode} best responses settled after {self.sweeps} sweeps; {end}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the contributions over the sweeps."""
        axes = axes_or_new(ax)
        for i, line in enumerate(self["theta"].T):
            axes.plot(line, marker=".", label=f"party {i}")
        axes.set(xlabel="sweep", ylabel="contribution", title=f"{self.mode} best responses")
        if i < 8:
            axes.legend()
        return axes


@checked
def best_response_dynamics(
    game: CollabGame,
    mode: Mode = "sequential",
    *,
    theta0: ArrayLike | None = None,
    order: Literal["fixed", "shuffled"] = "fixed",
    gamma: float = 0.5,
    tol: float = 1e-10,
    max_sweeps: int = 5000,
    fallback: bool = False,
    random_state: RandomState = 0,
) -> DynamicsTranscript:
    """Let the parties best-respond until nobody moves.

    Parameters
    ----------
    game:
        Any data-sharing game.
    mode:
        ``"sequential"``: one after the other. ``"simultaneous"``: all at once, for diagnosis only.
        ``"damped"``: all move a share ``gamma`` of the way.
    theta0:
        Start, zero by default.
    order:
        Order within a sequential sweep, the same or shuffled each time.
    gamma:
        Share of the way in damped mode; ``1/k`` is a guaranteed descent for symmetric positive
        semidefinite linear games.
    tol:
        Stop when no contribution differs from the best response by more than this.
    max_sweeps:
        Give up after this many sweeps.
    fallback:
        On failure try the damped mode and then :func:`solve_ncp` instead of raising.
    random_state:
        Seed for shuffled orders.

    Raises
    ------
    NonConvergence
        With the cycle, if the last plans repeat; otherwise after ``max_sweeps``.

    Notes
    -----
    If utilities are well-behaved on the box of stand-alone contributions, a stable plan exists
    (Theorem 4.2); convergence is guaranteed only where the game has a potential: symmetric
    linear games and whole-number coverage.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Thm. 1.

    Examples
    --------
    >>> from counterplay.contribution.lab import CyclePACGame
    >>> game = CyclePACGame(1, 0.9, integral=False, upper=1)
    >>> best_response_dynamics(game, "damped").theta.round(6).tolist()
    [0.552786, 0.552786, 0.552786]
    >>> best_response_dynamics(game)
    Traceback (most recent call last):
    ...
    counterplay.contribution.dynamics.NonConvergence: sequential best responses repeat ...
    """
    check_choice(mode, "mode", ("sequential", "simultaneous", "damped"))
    check_choice(order, "order", ("fixed", "shuffled"))
    check_open_fraction(gamma, "gamma")
    check_positive_int(max_sweeps, "max_sweeps")
    if mode == "damped" and game.integral:
        raise InvalidInputError("damped best responses need real contributions; use sequential")
    start = np.zeros(game.k) if theta0 is None else game._vector(theta0).copy()
    step = _stepper(game, mode, order, gamma, generator(random_state))
    try:
        history = _iterate(game, step, start, mode, tol, max_sweeps, order == "fixed")
    except NonConvergence:
        if not fallback or game.integral:
            raise
        return _fall_back(game, mode, start, tol, max_sweeps)
    plan = allocation(game, history[-1], "stable", {"sweeps": len(history) - 1})
    return DynamicsTranscript.of(mode, np.array(history), plan)


def _iterate(
    game: CollabGame,
    step: Callable[[FloatArray], FloatArray],
    theta: FloatArray,
    mode: str,
    tol: float,
    limit: int,
    deterministic: bool,
) -> list[FloatArray]:
    history, recent = [theta.copy()], deque([theta.copy()], maxlen=_MEMORY)
    for _ in range(limit):
        theta = step(theta)
        moved = float(abs(theta - recent[-1]).max())
        history.append(theta.copy())
        # one full comparison with the best responses confirms that nobody moves
        if moved <= tol and _settled(game, theta, tol):
            return history
        if deterministic:
            _raise_if_repeating(mode, theta, recent, moved)
        recent.append(theta.copy())
    raise NonConvergence(
        f"{mode} best responses still move by {moved:.2g} after {limit} sweeps; "
        "try mode='damped' or solve_ncp"
    )


def _settled(game: CollabGame, theta: FloatArray, tol: float) -> bool:
    return bool(abs(theta - game.best_response_map(theta)).max() <= max(tol, 1e-12))


def _raise_if_repeating(
    mode: str, theta: FloatArray, recent: deque[FloatArray], moved: float
) -> None:
    """Raise when the plan equals an earlier one although the last step moved it."""
    scale = max(1.0, float(abs(theta).max()))
    if moved <= 1e-9 * scale:
        return
    plans = list(recent)
    for back in range(2, len(plans) + 1):
        if abs(theta - plans[-back]).max() <= 1e-12 * scale:
            cycle = [*plans[len(plans) - back + 1 :], theta]
            raise NonConvergence(
                f"{mode} best responses repeat every {back} sweeps; use mode='damped' or solve_ncp",
                cycle=cycle,
            )


def _stepper(
    game: CollabGame, mode: str, order: str, gamma: float, rng: np.random.Generator
) -> Callable[[FloatArray], FloatArray]:
    if mode == "simultaneous":
        return game.best_response_map
    if mode == "damped":
        return lambda theta: (1 - gamma) * theta + gamma * game.best_response_map(theta)

    def turns() -> IntArray:
        turn = np.arange(game.k, dtype=np.int64)
        return rng.permutation(turn) if order == "shuffled" else turn

    if isinstance(game, CoverageGame) and game.extension == "rounding":
        return _coverage_stepper(game, turns)

    def sweep(theta: FloatArray) -> FloatArray:
        moved = theta.copy()
        for i in turns():
            moved[i] = game.best_response(int(i), moved)
        return moved

    return sweep


def _coverage_stepper(
    game: CoverageGame, turns: Callable[[], IntArray]
) -> Callable[[FloatArray], FloatArray]:
    """Compiled sweep that updates only the point types a party sees."""
    from counterplay.contribution import _kernels

    indptr, types, q = game.supports
    with np.errstate(divide="ignore"):
        log_keep = np.log1p(-q)
    mu, counts, upper = (np.array(x) for x in (game.mu, game.multiplicity, game.caps))
    state: dict[str, Any] = {"theta": None, "age": 0}

    def refresh(theta: FloatArray) -> None:
        factors = game.factors(theta)
        zero = factors == 0.0
        state["log"] = np.log(np.where(zero, 1.0, factors)).sum(axis=0)
        state["zeros"] = zero.sum(axis=0).astype(np.int64)
        state["age"] = 0

    def sweep(theta: FloatArray) -> FloatArray:
        moved = theta.copy()
        if state["age"] >= 32 or not np.array_equal(theta, state["theta"]):
            refresh(theta)  # also clears the rounding errors of the running log products
        _kernels.coverage_sweep(
            indptr,
            types,
            q,
            log_keep,
            counts,
            mu,
            upper,
            turns(),
            game.integral,
            moved,
            state["log"],
            state["zeros"],
        )
        state.update(theta=moved.copy(), age=state["age"] + 1)
        return moved

    return sweep


def _fall_back(
    game: CollabGame, mode: str, start: FloatArray, tol: float, limit: int
) -> DynamicsTranscript:
    if mode != "damped":
        try:
            return best_response_dynamics(
                game, "damped", theta0=start, tol=tol, max_sweeps=limit, fallback=False
            )
        except NonConvergence:
            pass
    plan = solve_ncp(game, start)
    return DynamicsTranscript.of("ncp", np.stack([start, plan.theta]), plan)


@checked
def solve_ncp(
    game: CollabGame,
    theta0: ArrayLike | None = None,
    *,
    n_starts: int = 20,
    max_iter: int = 200,
    tol: float = 1e-10,
    random_state: RandomState = 0,
) -> Allocation:
    """Find a stable plan by Newton steps on ``min(theta_i, u_i(theta) - mu_i) = 0``.

    For games on which best responses cycle. Real contributions only.

    Parameters
    ----------
    game:
        Any real-valued game.
    theta0:
        First start; further starts are drawn from the box of stand-alone contributions.
    n_starts:
        How many starts to try.
    max_iter:
        Newton steps per start.
    tol:
        Largest natural residual of an accepted plan.
    random_state:
        Seed of the further starts.

    Notes
    -----
    What is returned has been checked to be stable; nothing guarantees that a start converges.

    References
    ----------
    Facchinei, Pang (2003), *Finite-Dimensional Variational Inequalities and Complementarity
    Problems*, ch. 9.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> solve_ncp(instances.directed_triangle()).theta.round(6).tolist()
    [0.5, 0.5, 0.5]
    """
    if game.integral:
        raise InvalidInputError("solve_ncp needs real contributions; whole numbers have no slope")
    check_positive_int(n_starts, "n_starts")
    rng, box = generator(random_state), np.asarray(game.box)
    best = np.inf
    for attempt in range(n_starts):
        if attempt == 0:
            start = 0.5 * box if theta0 is None else np.minimum(game._vector(theta0), box)
        else:
            start = rng.random(game.k) * box
        theta, residual = _newton(game, start, box, max_iter, tol)
        best = min(best, residual)
        if residual <= tol:
            cleaned = _clean(game, theta)
            if stability_report(game, cleaned, Tolerances(u=1e-9, theta=1e-8)).is_stable:
                certificate = {"starts": attempt + 1, "residual": residual}
                return allocation(game, cleaned, "stable", certificate)
    raise ConvergenceError(
        f"no start reached a stable plan; the smallest residual was {best:.2g}; raise n_starts"
    )


def _newton(
    game: CollabGame, theta: FloatArray, box: FloatArray, limit: int, tol: float
) -> tuple[FloatArray, float]:
    residual, value = _residual(game, theta)
    for _ in range(limit):
        if abs(residual).max() <= tol:
            break
        tight = theta > game._utilities(theta[None, :])[0] - game.mu
        slope = np.where(tight[:, None], game.jacobian(theta), np.eye(game.k))
        direction = np.asarray(np.linalg.lstsq(slope, -residual, rcond=1e-12)[0], np.float64)
        theta, residual, value, moved = _search(game, theta, direction, box, value)
        if not moved:
            theta, residual, value, moved = _search(game, theta, -residual, box, value)
        if not moved:
            break
    return theta, float(abs(residual).max())


def _search(
    game: CollabGame, theta: FloatArray, direction: FloatArray, box: FloatArray, value: float
) -> tuple[FloatArray, FloatArray, float, bool]:
    """Armijo search along a projected direction."""
    step = 1.0
    while step > 1e-10:
        candidate = np.clip(theta + step * direction, 0.0, box)
        residual, new = _residual(game, candidate)
        if new <= (1 - 1e-4 * step) * value:
            return candidate, residual, new, True
        step *= 0.5
    residual, _ = _residual(game, theta)
    return theta, residual, value, False


def _residual(game: CollabGame, theta: FloatArray) -> tuple[FloatArray, float]:
    slack = game._utilities(theta[None, :])[0] - game.mu
    residual = np.minimum(theta, slack)
    return residual, float(residual @ residual)


def _clean(game: CollabGame, theta: FloatArray) -> FloatArray:
    """One sweep of best responses, kept if it stays at the same plan."""
    swept = theta.copy()
    for i in range(game.k):
        swept[i] = game.best_response(i, swept)
    return swept if abs(swept - theta).max() <= 1e-6 else theta
