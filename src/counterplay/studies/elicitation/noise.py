"""People who answer wrongly: repetition, and what a slip does to the exact certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import clopper_pearson
from counterplay.elicitation import (
    LinearPreferenceUser,
    NoisyUser,
    PolytopeElicitor,
    PreferenceElicitor,
    ReliableElicitor,
    answered_by,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.lab import SharedBases
from counterplay.errors import ContradictionError
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

K, EPS = 3, 0.01
METHODS = ("once", "majority", "adaptive")


class Slipping(LinearPreferenceUser):
    """Gives the wrong answer at fixed questions."""

    def __init__(self, w: Any, eps: float, slips: Any) -> None:
        super().__init__(w, eps)
        self.slips, self.count = {int(s) for s in slips}, 0

    def compare(self, first: Any, second: Any) -> Answer:
        """Answer, wrongly at the fixed questions."""
        answer = super().compare(first, second)
        self.count += 1
        return answer.swapped() if self.count - 1 in self.slips else answer


def _grid(scale: Scale) -> Sequence[Params]:
    people = 5 if scale == "quick" else 200
    flips = (0.0, 0.05, 0.1, 0.2) if scale == "quick" else (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
    cells: list[Params] = [
        {"kind": "flip", "flip": p, "person": i} for p in flips for i in range(people)
    ]
    slips = 8 if scale == "quick" else 100
    cells += [
        {"kind": "slips", "flip": float(n), "person": i} for n in (1, 2) for i in range(slips)
    ]
    return cells


def _cell(params: Params, seed: int) -> Record:
    person = int(params["person"] or 0)
    rng = np.random.default_rng([5, person])
    w = rng.dirichlet(np.ones(K))
    w /= np.linalg.norm(w)
    record: dict[str, Any] = {"false_exact": None, "false_reliable": None, "noticed": None}
    for method in METHODS:
        record[f"regret_{method}"] = record[f"questions_{method}"] = None
    record["contradiction"] = record["contradiction_majority"] = None
    if params["kind"] == "slips":
        return {**record, **_slips(w, int(params["flip"] or 0), rng)}
    return {**record, **_flips(w, float(params["flip"] or 0.0), person, seed)}


def _slips(w: Any, wrong: int, rng: np.random.Generator) -> dict[str, Any]:
    """Exactly ``wrong`` wrong answers: do both kinds of certificates hold, is a slip noticed?"""
    items = rng.random((300, K))
    worth, slips = items @ w, rng.choice(6, size=wrong, replace=False)
    sessions = {
        "exact": PolytopeElicitor(items, target_regret=0.05, random_state=0),
        "reliable": ReliableElicitor(items, target_regret=0.05, random_state=0),
    }
    record: dict[str, Any] = {}
    for name, session in sessions.items():
        result = answered_by(session, Slipping(w, 1e-9, slips))
        regret, bound = 1 - float(worth[result.index]) / float(worth.max()), 1.0
        if result.regret_certificate is not None:
            bound = result.regret_certificate
        record[f"false_{name}"] = bool(regret > bound + 1e-9)
        if name == "exact":
            record["noticed"] = bool(result.contradictions)
    return record


def _flips(w: Any, flip: float, person: int, seed: int) -> dict[str, Any]:
    mdp = instances.random_mdp(person % 5, k=K)
    shared = SharedBases(mdp)
    best = float(plan(mdp, w).scalar_values[0])
    record: dict[str, Any] = {}
    typical = bounds.total_questions(K, K, best / EPS)
    repeats = {"once": 1, "majority": bounds.repetitions(typical, flip, 0.05)}
    for method, repeat in repeats.items():
        user = NoisyUser(w, EPS, flip_prob=flip, repeat=repeat, random_state=seed)
        name = "contradiction" if method == "once" else "contradiction_majority"
        try:
            result = answered_by(PreferenceElicitor(shared), user)
            record[f"regret_{method}"] = max(0.0, 1 - float(result.value @ w) / best)
            record[f"questions_{method}"] = result.n_queries * repeat
            record[name] = False
        except ContradictionError:
            record[name] = True
    user = NoisyUser(w, EPS, flip_prob=flip, random_state=seed)
    session = PolytopeElicitor(shared, max_contradictions=10**6, random_state=0)
    result = answered_by(session, user)
    record["regret_adaptive"] = max(0.0, 1 - float(result.value @ w) / best)
    record["questions_adaptive"] = result.n_queries
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    flips = frame[frame.kind == "flip"]
    slips = frame[frame.kind == "slips"]
    exact = flips[flips.flip == 0]
    noisy = flips[flips.flip > 0]
    same = noisy.regret_majority.dropna() <= float(exact.regret_majority.max()) + 0.02
    trust = clopper_pearson(int(same.sum()), len(noisy), 0.99)
    unnoticed = slips[~slips.noticed.astype(bool)]
    spoiled = float(unnoticed.false_exact.astype(bool).mean())
    beyond = float(slips[slips.flip == 1].false_reliable.astype(bool).mean())
    return [
        Verdict(
            "08.36",
            "Share of noisy people for whom the majority rule is as good as exact answers",
            str(trust),
            ">= 0.95",
            trust.high >= 0.95,
        ),
        at_least(
            "08.37", "Share of exact certificates that an unnoticed slip spoils", spoiled, 0.1
        ),
        at_most(
            "08.37", "Share of reliable certificates that are false after one slip", beyond, 0.05
        ),
    ]


def _regret(frame: pd.DataFrame) -> Figure:
    """Mean regret (left) and mean number of questions (right) against the probability that an
    answer is the wrong way round. Repeating every question works but is expensive."""
    flips = frame[frame.kind == "flip"]
    figure, (left, right) = panels(2, width=4.0, height=3.6)
    for i, method in enumerate(METHODS):
        for ax, what in ((left, "regret"), (right, "questions")):
            means = flips.groupby("flip")[f"{what}_{method}"].mean()
            ax.plot(means.index, means, "o-", color=PALETTE[i], label=method, ms=4)
    left.set_ylabel("mean regret / best value")
    right.set_ylabel("mean number of questions")
    right.set_yscale("log")
    for ax in (left, right):
        ax.set_xlabel("probability of a wrong answer")
    right.legend(fontsize=8)
    return figure


NOISE = Study(
    name="wrong-answers",
    title="People who answer wrongly",
    question=(
        "Answers are reversed with some probability. How much is lost, how often is the "
        "contradiction noticed, and what does repetition buy?"
    ),
    claims=("08.36", "08.37"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"regret": _regret},
)
