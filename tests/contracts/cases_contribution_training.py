"""Contract cases of counterplay.contribution.training (part of cases_contribution)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from counterplay.contribution import training


@cache
def cohort() -> training.Cohort:
    return training.noisy_digits(training.run_keys(0, 2), size=60, train=40)


def trained(protocol: Any) -> Any:
    network = training.MLP()
    return protocol.fit(network, cohort(), network.init(cohort().keys)).accuracy


def curve() -> training.DefectionCurve:
    network = training.MLP()
    params = network.init(cohort().keys)
    return training.defection_curve(
        training.FedAvg(rounds=2), network, cohort(), params, fractions=(1.0, 0.5)
    )


def found() -> training.SearchResult:
    return training.random_search(**CASES["training.random_search"]["args"]())


CASES: dict[str, dict[str, Any]] = {
    "training.MLP": {
        "make": lambda: training.MLP(4, 3, 2),
        "run": lambda network: network.init(training.run_keys(0, 2)),
        "bad": {"size": lambda: training.MLP(0)},
    },
    "training.Network": {"no_case": "abstract base class"},
    "training.Cohort": {"make": cohort, "no_example": "made by noisy_digits"},
    "training.Trials": {
        "make": lambda: training.Trials(count=2),
        "bad": {"count": lambda: training.Trials(count=0)},
    },
    "training.Difficulty": {
        "make": lambda: None,
        "no_example": "returned by difficulty_scores",
    },
    "training.FedAvg": {
        "make": lambda: training.FedAvg(rounds=2),
        "run": trained,
        "bad": {"rounds": lambda: training.FedAvg(rounds=0)},
    },
    "training.MWFed": {
        "make": lambda: training.MWFed(rounds=2),
        "run": trained,
        "bad": {"factor": lambda: training.MWFed(c=0.1)},
    },
    "training.IndividualTraining": {
        "make": lambda: training.IndividualTraining(rounds=2, batch_size=8),
        "run": trained,
    },
    "training.TrainingHistory": {
        "make": lambda: training.FedAvg(rounds=1).fit(
            training.MLP(), cohort(), training.MLP().init(cohort().keys)
        ),
        "no_example": "returned by fit",
    },
    "training.DefectionCurve": {"make": curve, "no_example": "returned by defection_curve"},
    "training.defection_curve": {
        "args": lambda: {
            "algorithm": training.FedAvg(rounds=1),
            "network": training.MLP(),
            "cohort": cohort(),
            "params": training.MLP().init(cohort().keys),
            "fractions": (1.0, 0.5),
        },
        "bad": {"share": lambda: cohort().defect(0, 0.0)},
    },
    "training.default_defectors": {
        "args": lambda: {"cohort": cohort()},
        "no_example": "see defection_curve",
    },
    "training.difficulty_scores": {
        "args": lambda: {
            "network": training.MLP(),
            "X": cohort().X,
            "y": cohort().y,
            "method": "margin",
            "trials": training.Trials(count=2, max_steps=10),
        },
        "bad": {
            "no hold-out": lambda: training.difficulty_scores(
                training.MLP(), cohort().X, cohort().y
            )
        },
    },
    "training.hard_and_easy": {
        "args": {"scores": np.arange(20.0)},
        "bad": {"share": lambda: training.hard_and_easy(np.arange(20.0), share=0.0)},
    },
    "training.kept_points": {
        "args": {"n": 1600, "fraction": 0.01},
        "bad": {"share": lambda: training.kept_points(10, 0.0)},
    },
    "training.mixture_parties": {
        "args": {"hard": range(40), "easy": range(40, 80), "size": 10, "train": 8},
        "bad": {"too few": lambda: training.mixture_parties(range(3), range(3), size=10, train=8)},
    },
    "training.noisy_digits": {
        "args": lambda: {"keys": training.run_keys(0, 1), "size": 20, "train": 10},
        "no_example": "see FedAvg",
    },
    "training.pretrain": {
        "args": lambda: {
            "network": training.MLP(),
            "X": cohort().X,
            "y": cohort().y,
            "keys": cohort().keys,
            "steps": 2,
        },
        "no_example": "see the digits study",
    },
    "training.pretraining_digits": {"args": {"size": 20}, "no_example": "see the digits study"},
    "training.split_indices": {
        "args": {"n": 100, "pool": 50, "pretrain": 20},
        "bad": {"too many": lambda: training.split_indices(10, 8, 8)},
    },
    "training.SearchResult": {"make": found, "no_example": "returned by random_search"},
    "training.random_search": {
        "args": lambda: {
            "network": training.MLP(),
            "X": cohort().X,
            "y": cohort().y,
            "holdout": (cohort().X, cohort().y),
            "draws": 3,
            "steps": 2,
        },
        "bad": {
            "rates": lambda: training.random_search(
                training.MLP(), cohort().X, cohort().y, (cohort().X, cohort().y), lr=(1.0, 0.1)
            )
        },
    },
}

CASES["training.Difficulty"]["make"] = lambda: training.difficulty_scores(
    **CASES["training.difficulty_scores"]["args"]()
)
