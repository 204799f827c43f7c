"""No learner escapes: errors on the points attacked by reflection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.poisoning import bounds
from counterplay.poisoning.chain import axis_point, local_chain, reflect_chain
from counterplay.poisoning.instances import circles_on_spheres, convex_chain, tangent_circles
from counterplay.poisoning.lab import CircleERM, DyadicDirectionLearner, HardMarginSVM
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import covers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

COMMON = ("logistic", "1-nn", "forest", "perceptron")
LEARNERS = {
    "tangent circles": ("svm", *COMMON),
    "convex chain": ("svm", *COMMON, "dyadic"),
    "circles, t = 8": (*COMMON, "circle erm"),
}


def _grid(scale: Scale) -> Sequence[Params]:
    runs = 60 if scale == "quick" else 600
    return [
        {"game": game, "learner": name, "runs": runs // (2 if name == "forest" else 1)}
        for game, names in LEARNERS.items()
        for name in names
    ]


def _learner(name: str, rng: np.random.Generator, details: Any) -> Any:
    seed = int(rng.integers(2**31))
    if name == "circle erm":
        return CircleERM(details["centers"], random_state=seed)
    makers: dict[str, Any] = {
        "svm": lambda: HardMarginSVM(tol=1e-3),
        "logistic": lambda: LogisticRegression(C=100.0, tol=1e-8, max_iter=2000),
        "1-nn": lambda: FairNeighbour(rng),
        "forest": lambda: RandomForestClassifier(n_estimators=5, random_state=seed),
        "perceptron": lambda: Perceptron(random_state=seed),
        "dyadic": lambda: DyadicDirectionLearner(),
    }
    return makers[name]()


class FairNeighbour:
    """Nearest neighbour that decides exact ties by a coin; rounding would leak who is real."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def fit(self, X: Any, y: Any) -> FairNeighbour:
        """Store the rows."""
        self.X, self.y = X, y
        return self

    def predict(self, X: Any) -> Any:
        """Label of the nearest row of one point."""
        distance = np.linalg.norm(self.X - X[0], axis=1)
        near = self.y[distance <= distance.min() + 1e-9]
        tied = bool((near != near[0]).any())
        return np.array([self.rng.integers(2) if tied else near[0]])


def _game(name: str, rng: np.random.Generator) -> Any:
    if name == "tangent circles":
        return tangent_circles(12, bounds.sphere_reflection_eta(0.01, 12), 1, rng)
    if name == "convex chain":
        return convex_chain(3, random_state=rng)
    return circles_on_spheres(100, 8, 1, 1, rng)


def _cell(params: Params, seed: int) -> Record:
    rng, wrong, attacks = np.random.default_rng(seed), 0, 0
    for _ in range(int(params["runs"] or 0)):
        game = _game(str(params["game"]), rng)
        x0 = game.X_test[int(rng.integers(len(game.X_test)))]
        poison = game.attacker.attack(game.target, game.S, x0, budget=game.details.get("t"))
        if len(poison) == 0:
            continue
        both = game.S + poison
        order = rng.permutation(len(both))
        model = _learner(str(params["learner"]), rng, game.details)
        model.fit(both.X[order], both.y[order])
        answer = int(model.predict(x0[None])[0])
        if hasattr(model, "decision_function"):
            value = float(np.ravel(model.decision_function(x0[None]))[0])
            answer = int(rng.integers(2)) if abs(value) < 1e-6 else answer  # exact ties
        attacks += 1
        wrong += answer != int(game.target(x0[None])[0])
    span = clopper_pearson(wrong, attacks, 0.9999)
    return {"attacks": attacks, "wrong": wrong / attacks, "low": span.low, "high": span.high}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    return [
        covers(
            "10.20",
            f"{row.learner} on {row.game}: error at attacked points",
            Interval(row.wrong, row.low, row.high),
            1 / 2,
        )
        for row in frame.itertuples()
    ]


def _bars(frame: pd.DataFrame) -> Figure:
    """Error at the attacked points, for every learner and construction, with 99.99 % intervals: the
    poisoned sets of two worlds look the same, so nobody does better than a coin."""
    figure, (axes,) = panels(1, width=7.4, height=4.4)
    for i, game in enumerate(LEARNERS):
        part = frame[frame.game == game]
        place = part.index.to_numpy()
        bars = [part.wrong - part.low, part.high - part.wrong]
        axes.bar(place, part.wrong, yerr=bars, capsize=3, color=PALETTE[i], label=game)
    axes.axhline(0.5, label="any learner", **THEORY)
    axes.set_xticks(frame.index.to_numpy(), frame.learner.tolist(), rotation=35, ha="right")
    axes.set_ylabel("error at attacked points")
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8, ncols=2)
    return figure


def _chain(frame: pd.DataFrame) -> Figure:
    """The convex chain in the plane, in local coordinates (heights magnified by their cube root):
    the training chain above the boundary, the line through z and the attacked point, and the
    reflected chain, which lies below the boundary and is therefore clean with the other label."""
    m, i = 2, 3
    chain = local_chain(m)
    mirrored = reflect_chain(chain[1:], m, i)
    z = axis_point(m, i)
    figure, (axes,) = panels(1, width=7.0)
    axes.axhline(0, label="boundary of the target", **THEORY)
    axes.plot(chain[1:, 0], np.cbrt(chain[1:, 1]), "o-", color=PALETTE[0], label="chain, label s")
    axes.plot(
        mirrored[:, 0],
        np.cbrt(mirrored[:, 1]),
        "s-",
        color=PALETTE[1],
        label="reflected, label 1-s",
    )
    axes.plot(
        [z, chain[i, 0]], [0, np.cbrt(chain[i, 1])], color=PALETTE[2], label="reflection line"
    )
    x0 = chain[i, 0], np.cbrt(chain[i, 1])
    axes.plot(*x0, "o", markersize=13, markerfacecolor="none", color="black", label="attacked")
    axes.set(xlabel="along the boundary", ylabel="cube root of the height")
    axes.legend(fontsize=8)
    return figure


ESCAPE = Study(
    name="no-escape",
    title="No learner escapes a reflection",
    question=(
        "The attacker mirrors the training rows through the test point. Which learner errs on "
        "fewer than half of the attacked points? None can."
    ),
    claims=("10.20",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"bars": _bars, "chain": _chain},
    version=2,
)
