"""Everything the theory says about one finite problem: dimensions, the worst case, and curves.

Pass any finite class with orbits. The worst case is the adversary's optimal strategy in the orbit
game (the dual of the linear program behind mu), and all learners play against it.
Source: Definition 11.6, Theorem 11.5; docs/theory/11-invariance.md, "Dimensions and advice".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from counterplay.core.arguments import checked
from counterplay.core.dimensions import Shattering
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_int, check_size
from counterplay.errors import InvalidInputError
from counterplay.invariance.baselines import DA, ERM, ErmInv
from counterplay.invariance.dimensions import OrbitCube, OrbitShattering, dim, vcao, vcdim, vco
from counterplay.invariance.model import FiniteDistribution, FiniteProblem, as_problem
from counterplay.invariance.one_inclusion import OneInclusionRelaxed
from counterplay.invariance.orbit_only import MuResult, OrbitOnlyOptimal, mu

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEARNERS = ("ERM", "DA", "ERM-INV", "one-inclusion", "orbit-only")


@checked
@dataclass(frozen=True)
class TheoryReport(Report):
    """Dimensions with their witnesses, and learning curves on the worst-case distribution.

    Attributes
    ----------
    vcdim:
        VC dimension, with a certificate.
    vcao:
        VC dimension across orbits, with a certificate.
    vco:
        VC dimension of orbits, with a certificate.
    dim:
        Dimension of the relaxed problem, with a certificate.
    mu:
        Value of the orbit game, both players' strategies included.
    curves:
        Rows (learner, samples, mean error, standard error) on the worst case.
    """

    vcdim: Shattering
    vcao: OrbitShattering
    vco: OrbitShattering
    dim: OrbitCube
    mu: MuResult
    curves: tuple[tuple[str, int, float, float], ...]

    def summary(self) -> str:
        """The dimensions and what they mean."""
        return (
            f"VCdim {self.vcdim.value} (ERM), VCao {self.vcao.value} (augmentation in the "
            f"invariant setting, look-up), VCo {self.vco.value} (optimum of the invariant "
            f"setting), dim {self.dim.value}, mu {self.mu.value:.4g} (learners that see only "
            "orbits)."
        )

    def to_frame(self) -> pd.DataFrame:
        """The learning curves, one row per learner and sample size."""
        return pd.DataFrame(
            list(self.curves), columns=["learner", "samples", "error", "standard_error"]
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Learning curves on the worst-case distribution."""
        with figure_style():
            axes = axes_or_new(ax)
            for (name, rows), colour in zip(self.to_frame().groupby("learner"), PALETTE):
                axes.errorbar(
                    rows["samples"], rows["error"], 2 * rows["standard_error"], fmt="o-",
                    capsize=3, color=colour, label=str(name),
                )  # fmt: skip
            axes.set(xlabel="number of samples", ylabel="error", title="worst case of orbit games")
            axes.legend(fontsize=8)
        return axes


@checked
def theory_lab(
    H: Any,
    G: Any = None,
    *,
    sample_sizes: Sequence[int] = (0, 1, 2, 4, 8),
    n_runs: int = 60,
    random_state: RandomState = None,
) -> TheoryReport:
    """Compute all dimensions of a finite problem and play all learners on its worst case.

    Parameters
    ----------
    H:
        The class, or a FiniteProblem. Meant for small problems: mu solves a linear
        program for up to 3^K multisets of K orbits.
    G:
        The orbits; None if ``H`` is a problem.
    sample_sizes:
        Numbers of natural samples.
    n_runs:
        Draws of the worst case.
    random_state:
        Seed.

    Returns
    -------
    TheoryReport
        With ``summary()``, ``to_frame()`` and ``plot()``.

    Examples
    --------
    Two birds on two backgrounds: one sample tells ERM everything, augmentation nothing.

    >>> birds = FiniteProblem([[0, 1, 0, 1], [1, 0, 1, 0]], [0, 0, 1, 1])
    >>> report = theory_lab(birds, sample_sizes=(1,), n_runs=20, random_state=0)
    >>> report.mu.value, report.to_frame().set_index("learner").loc["ERM", "error"]
    (1.0, np.float64(0.0))
    """
    problem = as_problem(H, G)
    if not problem.is_group:
        raise InvalidInputError("the orbit game is defined for groups only")
    runs = check_int(n_runs, "n_runs", low=2, high=10_000)
    counts = [check_int(n, "sample_sizes", low=0, high=10**6) for n in sample_sizes]
    check_size(runs * len(counts), 10**5, "fits of every learner")
    game = mu(problem)
    rng = generator(random_state)
    orbit_only = OrbitOnlyOptimal(problem)
    errors: dict[tuple[str, int], list[float]] = {}
    for _ in range(runs if game.worst_case else 0):
        data = _draw(problem, game, rng)
        for n in counts:
            X, y = data.sample(n, rng)
            for name, error in _errors(problem, orbit_only, data, X, y, rng).items():
                errors.setdefault((name, n), []).append(error)
    curves = tuple(
        (name, n, float(np.mean(v)), float(np.std(v, ddof=1) / np.sqrt(len(v))))
        for (name, n), v in errors.items()
    )
    return TheoryReport(
        vcdim(problem), vcao(problem), vco(problem), dim(problem), game, curves
    )  # fmt: skip


def _draw(problem: FiniteProblem, game: MuResult, rng: np.random.Generator) -> FiniteDistribution:
    """One labeling and hypothesis of the worst case, as natural data: one point per orbit."""
    weights = np.array([p for _, _, p in game.worst_case])
    labeling, member, _ = game.worst_case[rng.choice(weights.size, p=weights / weights.sum())]
    points = []
    for orbit, label in zip(game.orbits, labeling):
        inside = np.flatnonzero((problem.orbit == orbit) & (problem.H[member] == label))
        points.append(int(rng.choice(inside)))
    return FiniteDistribution(
        np.array(points), np.array(labeling), np.full(len(points), 1 / len(points))
    )


def _errors(
    problem: FiniteProblem,
    orbit_only: OrbitOnlyOptimal,
    data: FiniteDistribution,
    X: Any,
    y: Any,
    rng: np.random.Generator,
) -> dict[str, float]:
    learners: dict[str, Any] = {
        "ERM": ERM(problem, tie="random", random_state=rng),
        "DA": DA(problem, tie="random", random_state=rng),
        "ERM-INV": ErmInv(ERM(problem, tie="random", random_state=rng)),
        "one-inclusion": OneInclusionRelaxed(problem),
    }
    out = {name: data.error_of(learner.fit(X, y)) for name, learner in learners.items()}
    exact = orbit_only.fresh().fit(X, y).predict_proba(data.points)[:, 1]
    return {**out, "orbit-only": data.error(exact)}
