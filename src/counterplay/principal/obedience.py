"""Persuasion with many states: the obedience linear program, with margins.

Recommend a strategy by a signal; the Agent obeys if, after each signal, no other strategy is
better. Asking for a margin makes obedience strictly better, which is stability: deviating on
signals of total probability q costs the Agent at least margin * q and the Principal at most q.
Source: Kamenica and Gentzkow (2011), Bergemann and Morris (2016); Lemma F.5;
margins and log-grid of forecasts are ours: Proposition 7.H, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, hstack, vstack

from counterplay.core.arguments import checked
from counterplay.core.programs import Highs, minimize_linear
from counterplay.core.report import Report
from counterplay.core.validation import (
    FloatArray,
    check_positive_int,
    check_real,
    check_size,
    shorten,
)
from counterplay.errors import InfeasibleError, InvalidInputError
from counterplay.principal.games import check_forecasts
from counterplay.principal.persuasion import DisclosureGame, Scheme
from counterplay.principal.responses import OracleSpec
from counterplay.principal.rules import GrowingRule

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class ObedienceSolution(Report):
    """Optimal obedient disclosure at one prior.

    Attributes
    ----------
    value:
        Expected utility of the Principal.
    agent_value:
        Expected utility of the Agent.
    scheme:
        Probability of every recommendation in every state.
    margin:
        The obedience margin that was asked for.
    """

    value: float
    agent_value: float
    scheme: Scheme
    margin: float

    def summary(self) -> str:
        """Return value, margin and number of signals as text."""
        return (
            f"value {self.value:.6g} with {len(self.scheme.support)} signals, "
            f"obedience margin {self.margin:g}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the probability of every recommendation (rows) in every state (columns)."""
        import pandas as pd

        frame = pd.DataFrame(self.scheme.matrix).add_prefix("state ")
        frame.index.name = "recommendation"
        return frame


@checked
def obedience_lp(
    u: ArrayLike, v: ArrayLike, prior: ArrayLike, *, margin: float = 0.0, slack: float = 0.0
) -> ObedienceSolution:
    """Best disclosure for the Principal under obedience, for any numbers of states and strategies.

    Parameters
    ----------
    u:
        Utilities ``[strategy, state]`` of the Agent.
    v:
        Utilities ``[strategy, state]`` of the Principal.
    prior:
        Probabilities of the states.
    margin:
        After every signal, obeying must beat every other strategy by this much.
    slack:
        Instead of obeying exactly, the Agent may lose up to this much in total (in the Principal's
        favour): the optimistic value. Only with ``margin = 0``.

    Notes
    -----
    One sparse linear program with strategies x states variables, solved by HiGHS.

    Examples
    --------
    >>> solution = obedience_lp([[1, 0], [0, 1]], [[0, 0], [1, 1]], [0.7, 0.3])
    >>> round(solution.value, 9)
    0.6
    >>> round(obedience_lp([[1, 0], [0, 1]], [[0, 0], [1, 1]], [0.7, 0.3], margin=0.04).value, 6)
    0.576923
    """
    game = DisclosureGame(u, v)
    pi = check_forecasts(prior, game.n_states)[0]
    gap = check_real(margin, "margin", low=0.0)
    loss = check_real(slack, "slack", low=0.0)
    if gap and loss:
        raise InvalidInputError("give margin or slack, not both")
    return solve_obedience(game, pi, gap, loss)


def solve_obedience(
    game: DisclosureGame, pi: FloatArray, gap: float = 0.0, loss: float = 0.0
) -> ObedienceSolution:
    """Solve the program of :func:`obedience_lp` for arguments that are known to be valid."""
    n, m = game.u.shape
    A_ub, b_ub = _obedience_rows(game.u, gap, loss)
    extra = A_ub.shape[1] - n * m
    every_state = csr_matrix(
        (np.ones(n * m), (np.tile(np.arange(m), n), np.arange(n * m))), shape=(m, n * m + extra)
    )
    cost = np.concatenate([-game.v.ravel(), np.zeros(extra)])
    large = n * m > 400  # then interior points are several times faster than the simplex method
    solved = minimize_linear(
        cost,
        A_ub=A_ub,
        b_ub=b_ub,
        A_eq=every_state,
        b_eq=pi,
        solver=Highs("highs-ipm", presolve=False) if large else Highs(),
        what="the obedience program",
        infeasible=f"no disclosure gives the Agent a margin of {gap:g} after every signal; "
        "ask for less",
    )
    joint = np.maximum(solved.point[: n * m].reshape(n, m), 0.0)
    return ObedienceSolution(
        value=float((joint * game.v).sum()),
        agent_value=float((joint * game.u).sum()),
        scheme=_scheme(joint),
        margin=gap,
    )


def _obedience_rows(u: FloatArray, margin: float, slack: float) -> tuple[csr_matrix, FloatArray]:
    """Rows (s, s'): sum_y x[s,y] (u[s',y] - u[s,y] + margin) <= 0, or <= loss[s] with slack."""
    n, m = u.shape
    s, other = np.nonzero(~np.eye(n, dtype=bool))
    data = u[other] - u[s] + margin
    columns = s[:, None] * m + np.arange(m)
    pointer = np.arange(0, s.size * m + 1, m)
    rows = csr_matrix((data.ravel(), columns.ravel(), pointer), shape=(s.size, n * m))
    if slack == 0.0:
        return rows, np.zeros(s.size)
    losses = csr_matrix((-np.ones(s.size), (np.arange(s.size), s)), shape=(s.size, n))
    total = csr_matrix(np.concatenate([np.zeros(n * m), np.ones(n)])[None, :])
    return vstack([hstack([rows, losses]), total]).tocsr(), np.append(np.zeros(s.size), slack)


def _scheme(joint: FloatArray) -> Scheme:
    joint = np.where(joint > 1e-12, joint, 0.0)
    total = joint.sum(axis=0)
    default = np.zeros_like(joint)
    default[int(joint.sum(axis=1).argmax())] = 1.0  # states of probability zero
    return Scheme(np.where(total > 0, joint / np.where(total > 0, total, 1.0), default))


@checked
class ObedienceOracle(GrowingRule):
    """Stable disclosure for more than two states: the obedience program with a margin.

    Parameters
    ----------
    game:
        A :class:`DisclosureGame`.
    P0:
        Benchmark schemes; default no disclosure and full disclosure.
    margin:
        Obedience margin, at most :func:`largest_margin`; default half of it.
    x:
        The guarantee's trade-off between margin and harmless deviations, in (0, 1].
    eps:
        Optimistic ball of the benchmark; default the stability margin of the guarantee.

    Notes
    -----
    The forecast is snapped to a grid in the logarithms of its entries, with floor
    ``margin x / (16 |Y|)``, so that there are finitely many schemes and every posterior moves by
    little. The schemes are (x margin / 4, x)-stable under the forecast itself; the loss c is
    measured round by round.

    Examples
    --------
    >>> from counterplay.principal import DisclosureGame
    >>> from counterplay.principal.lab import ObedienceOracle, is_stable
    >>> game = DisclosureGame(u=[[1, 0, 0], [0, 1, 0], [0.2, 0.2, 1]], v=[0.0, 0.3, 1.0])
    >>> oracle = ObedienceOracle(game, margin=0.1, x=0.2)
    >>> scheme = oracle([0.5, 0.3, 0.2])
    >>> is_stable(game, scheme, [0.5, 0.3, 0.2], oracle.spec.beta, oracle.spec.gamma)
    True
    """

    game: DisclosureGame

    def __init__(
        self,
        game: DisclosureGame,
        P0: Any = None,
        *,
        margin: float | None = None,
        x: float = 0.2,
        eps: float | None = None,
    ) -> None:
        if not isinstance(game, DisclosureGame):
            raise InvalidInputError("ObedienceOracle needs a DisclosureGame")
        disclosures = (game.no_disclosure(), game.full_disclosure())
        super().__init__(game, tuple(dict.fromkeys(disclosures)) if P0 is None else P0)
        most = positive_margin(game)
        self.margin = check_real(
            most / 2 if margin is None else margin, "margin", low=0.0, high=most, open_low=True
        )
        self.x = check_real(x, "x", low=0.0, high=1.0, open_low=True)
        beta = self.x * self.margin / 4
        self.eps = check_real(beta if eps is None else eps, "eps", low=0.0, open_low=True)
        self.spec = OracleSpec(None, self.eps, beta, self.x, None)
        self.step = math.log1p(self.margin / 2)
        self.floor = self.margin * self.x / (16 * game.n_states)
        self.max_actions = game.n_strategies ** min(game.n_strategies, game.n_states)
        self._cells: dict[tuple[int, ...], int] = {}

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the index of the scheme of the forecast's cell and the best response to it."""
        self._check_length(forecast)
        if not np.isfinite(forecast).all():
            raise InvalidInputError(f"forecast must be finite, got {shorten(forecast.tolist())}")
        logs = np.log(np.maximum(forecast, self.floor)) / self.step
        cell = tuple(np.rint(logs - logs.max()).astype(int).tolist())
        index = self._cells.get(cell)
        if index is None:
            index = self._cells[cell] = self._solve(cell)
        return self._answered(index, forecast)

    def _solve(self, cell: tuple[int, ...]) -> int:
        weights = np.exp(self.step * np.array(cell, dtype=np.float64))
        centre = weights / weights.sum()
        return self._number(solve_obedience(self.game, centre, self.margin).scheme)

    def __repr__(self) -> str:
        return f"ObedienceOracle(margin={self.margin:.4g}, x={self.x:g})"


@checked
def largest_margin(game: DisclosureGame) -> float:
    """Largest obedience margin that some disclosure reaches whatever the forecast.

    It is the smallest lead of the best over the second-best strategy when the state is known: full
    disclosure has this margin, and nothing else helps where one state is certain.

    Examples
    --------
    >>> largest_margin(DisclosureGame(u=[[1, 0], [0.25, 1]], v=[0, 1]))
    0.75
    """
    if game.n_strategies == 1:
        return 1.0
    ordered = np.sort(game.u, axis=0)
    return float((ordered[-1] - ordered[-2]).min())


def positive_margin(game: DisclosureGame) -> float:
    """Return :func:`largest_margin`; raise if two strategies tie for the best in some state."""
    most = largest_margin(game)
    if most <= 0.0:
        top = np.sort(game.u, axis=0)[-2:]
        y = int(np.argmin(top[1] - top[0]))
        one, two = np.sort(np.argsort(-game.u[:, y], kind="stable")[:2])
        names = " and ".join(repr(game.strategy_label(int(s))) for s in (one, two))
        raise InfeasibleError(
            f"strategies {names} are equally good for the Agent in state {y}: change one utility "
            "or merge them"
        )
    return most


@checked
def disclosure_library(
    game: DisclosureGame, *, margin: float | None = None, parts: int = 4
) -> tuple[Scheme, ...]:
    """Obedient schemes for the forecasts of a net of the simplex, without repeats.

    Few schemes are learned faster than many: hand the library to :class:`FiniteStableOracle`, which
    offers the best scheme that is stable under the forecast. Full disclosure is always in it, so
    with ``gamma = x`` and ``beta = x * margin`` there always is a stable one.

    Parameters
    ----------
    game:
        A :class:`DisclosureGame`.
    margin:
        Obedience margin; default half of :func:`largest_margin`.
    parts:
        The net has the forecasts whose entries are multiples of 1 / parts, moved slightly inside.

    Examples
    --------
    >>> len(disclosure_library(DisclosureGame(u=[[1, 0], [0, 1]], v=[0, 1]), margin=0.1))
    5
    """
    n = check_positive_int(parts, "parts") + game.n_states - 1
    check_size(math.comb(n, game.n_states - 1), 1000, "forecasts, one linear program each,")
    gap = positive_margin(game) / 2 if margin is None else margin
    schemes = [game.full_disclosure()]
    for counts in _compositions(parts, game.n_states):
        prior = 0.98 * np.array(counts) / parts + 0.02 / game.n_states
        schemes.append(solve_obedience(game, prior, gap).scheme)
    return tuple(dict.fromkeys(schemes))


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)]
    return [
        (first, *rest)
        for first in range(total + 1)
        for rest in _compositions(total - first, parts - 1)
    ]
