"""Regret after q questions on decision processes, against the usual ways."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import mean_interval
from counterplay.elicitation import (
    LinearPreferenceUser,
    MultiObjectiveMDP,
    PolytopeElicitor,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
)
from counterplay.elicitation.lab import (
    SharedBases,
    bradley_terry,
    equal_weights,
    policy_value,
    random_comparisons,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STOPS = (0, 2, 4, 6, 8, 10, 15, 20, 30, 40)
METHODS = ("adaptive", "guaranteed", "random pairs", "Bradley-Terry", "equal weights")
EPS = 0.01
OURS = ("tree", "tree with slip", "random process")
GYM = ("fruit-tree-v0", "deep-sea-treasure-v0", "resource-gathering-v0")


def _grid(scale: Scale) -> Sequence[Params]:
    names = OURS if scale == "quick" else OURS + GYM
    return [
        {"environment": name, "user": u}
        for name in names
        for u in range(50 if scale == "full" else 10 if name == "tree" else 5)
    ]


@cache
def _environment(name: str) -> SharedBases:
    return SharedBases(_process(name))


def _process(name: str) -> MultiObjectiveMDP:
    if name == "tree":
        return instances.harvest_tree()
    if name == "tree with slip":
        return instances.harvest_tree(slip=0.1)
    if name == "random process":
        return instances.random_mdp(1, k=4)
    known: dict[str, dict[str, Any]] = {
        "fruit-tree-v0": {"horizon": 6, "depth": 6},
        "deep-sea-treasure-v0": {"horizon": 20, "costs": ["time"]},
        "resource-gathering-v0": {"horizon": 16, "costs": ["enemy"], "samples": 2000},
    }
    return MultiObjectiveMDP.from_gymnasium(name, **known[name])


def _cell(params: Params, seed: int) -> Record:
    shared = _environment(str(params["environment"]))
    oracle = shared.oracle
    k = oracle.k
    w = np.random.default_rng([3, int(params["user"] or 0)]).dirichlet(np.ones(k))
    w /= np.linalg.norm(w)
    user = LinearPreferenceUser(w, EPS)
    best = float(oracle.argmax(w)[1][0] @ w)

    def loss(value: Any) -> float:
        return max(0.0, 1 - float(value @ w) / best)

    full = answered_by(PreferenceElicitor(shared), user)
    record: dict[str, Any] = {
        "k": k,
        "questions": full.n_queries,
        "regret": max(0.0, best - float(full.value @ w)),
        "certificate": full.regret_certificate,
        "best": best,
    }
    equal = loss(equal_weights(oracle).value)
    curve = _adaptive(shared, user, loss, record)
    for q in STOPS:
        record[f"adaptive_{q}"] = curve[q]
        capped = answered_by(PreferenceElicitor(shared, max_queries=q), user)
        record[f"guaranteed_{q}"] = loss(capped.value)
        record[f"equal weights_{q}"] = equal
        if q == 0:
            record["random pairs_0"] = record["Bradley-Terry_0"] = equal
            continue
        random = random_comparisons(oracle, user, q, seed)
        record[f"random pairs_{q}"] = loss(random.value)
        logistic = bradley_terry(oracle, user, q, random_state=seed)
        record[f"Bradley-Terry_{q}"] = loss(logistic.value)
    return record


def _adaptive(
    shared: SharedBases, user: LinearPreferenceUser, loss: Any, record: dict[str, Any]
) -> dict[int, float]:
    """Loss of the best guess after each number of questions; constant once it has stopped."""
    elicitor, process = PolytopeElicitor(shared, random_state=0), shared.showroom.mdp
    assert process is not None
    curve: dict[int, float] = {}
    now = 0.0
    for q in range(max(STOPS) + 1):
        query = elicitor.ask()
        if q == 0 or query is not None:
            now = loss(policy_value(process, elicitor.best_guess()))
        if q in STOPS:
            curve[q] = now
        if query is not None:
            elicitor.tell(user.compare(query.first, query.second))
            if elicitor.done:
                now = loss(elicitor.result().value)
    record["adaptive_questions"] = len(elicitor.events)
    record["adaptive_regret"] = loss(elicitor.result().value)
    record["adaptive_certificate"] = elicitor.certificate
    return curve


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    tree = frame[frame.environment == "tree"]
    loss = mean_interval(tree.regret)
    questions = mean_interval(tree.questions)
    over = float((frame.adaptive_regret - frame.adaptive_certificate).max())
    fewer = frame.groupby("environment")[["adaptive_questions", "questions"]].median()
    ratio = float((fewer.adaptive_questions / fewer.questions).max())
    most = [
        bounds.adaptive_questions(int(k), 0.01) + bounds.total_questions(int(k), int(k), b / EPS)
        for k, b in zip(frame.k, frame.best)
    ]
    return [
        Verdict(
            "08.26", "Mean regret on the tree, eps = 0.01", str(loss), "< 0.001",
            loss.estimate < 1e-3,
        ),
        Verdict(
            "08.26", "Mean questions on the tree", str(questions), "45 to 56",
            45 <= questions.estimate <= 56,
        ),
        at_most("08.28", "Adaptive regret minus its certificate, largest", over, 0.0, slack=1e-9),
        at_least(
            "08.29", "Questions to spare, adaptive share plus guaranteed bound",
            (np.array(most) - frame.adaptive_questions).min(), 0,
        ),
        Verdict(
            "08.30", "Median adaptive questions / guaranteed questions, worst environment",
            f"{ratio:.2f}", "< 1", ratio < 1,
        ),
    ]  # fmt: skip


def _curves(frame: pd.DataFrame) -> Figure:
    """Mean regret, as a fraction of the best value, if one stops after q questions. The adaptive
    questionnaire knows when it is done; the guaranteed procedure is poor until it has measured all
    its ratios."""
    names = list(dict.fromkeys(frame.environment))
    figure, axes = panels(len(names), width=2.9, height=3.4)
    for ax, name in zip(axes, names):
        part = frame[frame.environment == name]
        for i, method in enumerate(METHODS):
            means = [max(part[f"{method}_{q}"].mean(), 1e-5) for q in STOPS]
            style = "--" if method == "equal weights" else "o-"
            ax.plot(STOPS, means, style, color=PALETTE[i], label=method, ms=4)
        ax.set_yscale("log")
        ax.set_title(name)
        ax.set_xlabel("questions asked")
    axes[0].set_ylabel("mean regret / best value")
    axes[-1].legend(fontsize=7)
    return figure


ENVIRONMENTS = Study(
    name="environments",
    title="Regret after q questions on decision processes",
    question=(
        "Users with random weights want a policy in a tree of choices with six objectives, or in a "
        "random process with four. How good is the recommendation after q questions, compared with "
        "random comparisons, Bradley-Terry regression and equal weights?"
    ),
    claims=("08.26", "08.28", "08.29", "08.30"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"curves": _curves},
    full_extra="gym",
    full_needs="the gym extra",
)
