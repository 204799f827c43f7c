"""Theorems as checks on your game: when stability is free, when it is fair, and who matters.
Source: Theorems 4.6 and 4.7, Corollary 4.1, Definition 4.6, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.audit import natural_residual, party_frame
from counterplay.contribution.game import CollabGame
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.contribution.social_optimum import socially_optimal_linear
from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_positive_int
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


@checked(arrays=True)
@dataclass(frozen=True)
class CoreSetCertificate(Report):
    """A stable plan is the social optimum of the parties that contribute."""

    game: LinearGame
    theta: FloatArray
    core: IntArray
    """Parties that contribute."""
    restricted_value: float
    """Cheapest total of the core on its own."""
    gap: float
    """Stable total minus ``restricted_value``; zero up to rounding."""
    equations_residual: float
    """Largest violation of ``W_SS theta_S = mu`` on the core."""
    globally_optimal: bool
    """Everybody contributes, so the plan is optimal for all: PoS = 1."""

    def enumerate_core_optima(self, n: int, random_state: RandomState = 0) -> list[FloatArray]:
        """Return up to ``n`` distinct cheapest plans of the core, padded with zeros.

        Each is again a cheapest stable plan if W is positive semidefinite (second half of the
        theorem). Found with random objectives over the optimal face.
        """
        check_positive_int(n, "n")
        rng, index = generator(random_state), self.core
        block = self.game.dense()[np.ix_(index, index)]
        total = np.ones((1, index.size))
        plans: list[FloatArray] = []
        for _ in range(n):
            solved = minimize_linear(
                rng.standard_normal(index.size),
                A_ub=-block,
                b_ub=-self.game.mu[index],
                A_eq=total,
                b_eq=[self.theta.sum()],
                allow=("infeasible",),
            )
            if solved.x is None:  # by rounding errors
                continue
            padded = np.zeros(self.game.k)
            padded[index] = solved.x
            if all(abs(padded - plan).max() > 1e-6 for plan in plans):
                plans.append(padded)
        return plans

    def summary(self) -> str:
        """Return one line."""
        scope = (
            "of all parties" if self.globally_optimal else f"of the {self.core.size} in the core"
        )
        return f"the stable plan is the cheapest plan {scope} (gap {self.gap:.2g})"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per party: contribution, and whether it is in the core."""
        return party_frame({"theta": self.theta, "core": self.theta > 0})


@checked
def core_set_certificate(
    W: Any, mu: ArrayLike | None = None, theta_eq: ArrayLike | None = None, *, tol: float = 1e-7
) -> CoreSetCertificate:
    """Certify that a stable plan is socially optimal for the parties that contribute.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix; symmetric, with equal prices.
    mu:
        Targets, if ``W`` is a matrix; all equal.
    theta_eq:
        A stable plan.
    tol:
        Contributions below it count as zero.

    Notes
    -----
    The contributions of the core are at the same time feasible for its covering LP and, scaled, for
    the dual: equal values prove optimality (Theorem 4.6). The first half needs symmetry
    and equal targets only.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Thm. 6 and Cor. 1.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> from counterplay.contribution.lab import optimal_stable_linear
    >>> game = instances.flower(3).linear()
    >>> proof = core_set_certificate(game, theta_eq=optimal_stable_linear(game).theta)
    >>> proof.core.size, proof.globally_optimal, abs(proof.gap) < 1e-7
    (9, False, True)
    """
    game = as_linear_game(W, mu)
    if theta_eq is None:
        raise InvalidInputError("give the stable plan as theta_eq")
    if not (game.is_symmetric and game.uniform_mu and game.uniform_cost):
        raise InvalidInputError("the certificate needs a symmetric W, equal targets, equal prices")
    theta = game._vector(theta_eq)
    residual = natural_residual(game, theta)
    if residual > 1e-5:
        raise InvalidInputError(f"theta_eq is not stable: natural residual {residual:.2g}")
    core = np.flatnonzero(theta > tol)
    own = theta[core]
    block = game.dense()[np.ix_(core, core)]
    value = socially_optimal_linear(game.subset(core.tolist())).total if core.size else 0.0
    return CoreSetCertificate(
        game=game,
        theta=theta,
        core=core,
        restricted_value=value,
        gap=game.total(theta) - value,
        equations_residual=float(abs(block @ own - game.mu[core]).max(initial=0.0)),
        globally_optimal=core.size == game.k,
    )


@checked
@dataclass(frozen=True)
class ConditionReport(Report):
    """Whether a theorem applies, and which of its conditions fail."""

    holds: bool
    failed: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.holds

    def summary(self) -> str:
        """Return whether the theorem applies."""
        return "all conditions hold" if self.holds else "fails: " + ", ".join(self.failed)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per condition that fails."""
        import pandas as pd

        return pd.DataFrame({"failed": list(self.failed)})


@checked
def pos_is_one(W: Any, mu: ArrayLike | None = None) -> ConditionReport:
    """Say whether diagonal dominance makes stability free, with the conditions that fail.

    If ``W`` is symmetric, positive semidefinite, with unit and strictly dominant diagonal, and all
    targets are equal and positive, then everybody contributes in every stable plan, so it is the
    cheapest plan: PoS = 1.

    Examples
    --------
    >>> pos_is_one([[1, 0.2], [0.2, 1]], 1.0).holds
    True
    >>> pos_is_one([[1, 0.2], [0.2, 1]], [1.0, 2.0]).failed
    ('equal targets',)
    """
    game = as_linear_game(W, mu)
    conditions = {
        "symmetric": game.is_symmetric,
        "positive semidefinite": game.is_psd,
        "unit diagonal": game.unit_diagonal,
        "strictly diagonally dominant": game.is_strictly_diag_dominant,
        "equal targets": game.uniform_mu,
        "positive targets": bool((game.mu > 0).all()),
        "equal prices": game.uniform_cost,
        "no caps": game.upper is None,
    }
    failed = tuple(name for name, met in conditions.items() if not met)
    return ConditionReport(not failed, failed)


@checked
def stable_implies_envy_free(W: Any) -> ConditionReport:
    """Say whether every stable plan is envy-free: ``W_ij < W_ii`` for all ``j != i``.

    Then for ``theta_i > theta_j`` the swap leaves i with
    ``u_i + (theta_i - theta_j)(W_ij - W_ii) < mu_i``. Needs no symmetry (Theorem 4.7).

    Examples
    --------
    >>> stable_implies_envy_free([[1, 1], [1, 1]]).failed
    ('W[0, 1] < W[0, 0]', 'W[1, 0] < W[1, 1]')
    """
    game = as_linear_game(W)
    matrix = game.dense()
    bad = matrix >= game.diagonal[:, None]
    np.fill_diagonal(bad, False)
    failed = tuple(f"W[{i}, {j}] < W[{i}, {i}]" for i, j in np.argwhere(bad))
    return ConditionReport(not failed, failed)


@checked(arrays=True)
@dataclass(frozen=True)
class WellBehavedReport(Report):
    """Smallest own and largest cross effect on a box; a stable plan exists if ``c2 > 0``."""

    c1: FloatArray
    c2: FloatArray
    corner: FloatArray
    exact: bool

    @property
    def is_well_behaved(self) -> bool:
        """Whether own effects are bounded away from zero on the whole box."""
        return bool((self.c2 > 0).all())

    @property
    def lipschitz(self) -> FloatArray:
        """Per party, how fast best responses move: ``c1 / c2``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.c2 > 0, self.c1 / self.c2, np.inf)

    def summary(self) -> str:
        """Return whether a stable plan is known to exist, and from what."""
        word = "well-behaved: a stable plan exists" if self.is_well_behaved else "not well-behaved"
        known = "exact" if self.exact else "estimated"
        return f"{word} (smallest own effect {self.c2.min():.4g}, {known})"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per party."""
        return party_frame({"c1": self.c1, "c2": self.c2, "corner": self.corner})


@checked
def well_behaved_report(game: CollabGame, C: ArrayLike | None = None) -> WellBehavedReport:
    """Return the constants of the existence theorem on the box ``[0, C]``.

    ``C`` defaults to the stand-alone contributions. If ``c2 > 0`` everywhere, a stable plan exists
    (Theorem 4.2) and best responses are Lipschitz with constant ``c1 / c2``.

    Examples
    --------
    >>> from counterplay.contribution.lab import CyclePACGame
    >>> game = CyclePACGame(1, 0.9, integral=False, upper=1)
    >>> float(well_behaved_report(game, 0.5).c2[0])
    0.25
    >>> well_behaved_report(game, 1.0).is_well_behaved
    False
    """
    corner = game._corner(C)
    c1, c2 = game.well_behaved_constants(corner)
    exact = type(game).well_behaved_constants is not CollabGame.well_behaved_constants
    return WellBehavedReport(np.asarray(c1), np.asarray(c2), np.asarray(corner), exact)
