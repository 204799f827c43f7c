"""Contract cases of counterplay.contribution.defectors (part of cases_contribution)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from counterplay.contribution import lab
from counterplay.core.draws import run_keys
from counterplay.federated import MWFed

NETWORK = lab.DigitsNetwork()


@cache
def cohort() -> lab.Cohort:
    return lab.noisy_digits(run_keys(0, 2), size=60, train=40)


def start() -> Any:
    return NETWORK.start(cohort().keys)


def curve() -> lab.DefectionCurve:
    return lab.defection_curve(**CASES["defection_curve"]["args"]())


def found() -> lab.SearchResult:
    return lab.random_search(**CASES["random_search"]["args"]())


CASES: dict[str, dict[str, Any]] = {
    "DigitsNetwork": {
        "make": lab.DigitsNetwork,
        "run": lambda network: network.start(run_keys(0, 2)),
    },
    "Cohort": {"make": cohort, "no_example": "made by noisy_digits"},
    "Trials": {
        "make": lambda: lab.Trials(count=2),
        "bad": {"count": lambda: lab.Trials(count=0)},
    },
    "Difficulty": {
        "make": lambda: None,
        "no_example": "returned by difficulty_scores",
    },
    "PooledTraining": {
        "make": lambda: lab.PooledTraining(MWFed(growth=4.0), rounds=2),
        "run": lambda training: training.fit(NETWORK, cohort(), start()).accuracy,
        "bad": {"rounds": lambda: lab.PooledTraining(rounds=0)},
    },
    "TrainingHistory": {
        "make": lambda: lab.PooledTraining(rounds=1).fit(NETWORK, cohort(), start()),
        "no_example": "returned by fit",
    },
    "DefectionCurve": {"make": curve, "no_example": "returned by defection_curve"},
    "defection_curve": {
        "args": lambda: {
            "training": lab.PooledTraining(rounds=1),
            "objective": NETWORK,
            "cohort": cohort(),
            "start": start(),
            "fractions": (1.0, 0.5),
        },
        "bad": {"share": lambda: cohort().defect(0, 0.0)},
    },
    "default_defectors": {
        "args": lambda: {"cohort": cohort()},
        "no_example": "see defection_curve",
    },
    "difficulty_scores": {
        "args": lambda: {
            "objective": NETWORK,
            "X": cohort().X,
            "y": cohort().y,
            "method": "margin",
            "trials": lab.Trials(count=2, max_steps=10),
        },
        "bad": {"no hold-out": lambda: lab.difficulty_scores(NETWORK, cohort().X, cohort().y)},
    },
    "hard_and_easy": {
        "args": {"scores": np.arange(20.0)},
        "bad": {"share": lambda: lab.hard_and_easy(np.arange(20.0), share=0.0)},
    },
    "kept_points": {
        "args": {"n": 1600, "fraction": 0.01},
        "bad": {"share": lambda: lab.kept_points(10, 0.0)},
    },
    "mixture_parties": {
        "args": {"hard": range(40), "easy": range(40, 80), "size": 10, "train": 8},
        "bad": {"too few": lambda: lab.mixture_parties(range(3), range(3), size=10, train=8)},
    },
    "noisy_digits": {
        "args": lambda: {"keys": run_keys(0, 1), "size": 20, "train": 10},
        "no_example": "see PooledTraining",
    },
    "pretrain": {
        "args": lambda: {
            "objective": NETWORK,
            "X": cohort().X,
            "y": cohort().y,
            "keys": cohort().keys,
            "steps": 2,
        },
        "no_example": "see the digits study",
    },
    "pretraining_digits": {"args": {"size": 20}, "no_example": "see the digits study"},
    "split_indices": {
        "args": {"n": 100, "pool": 50, "pretrain": 20},
        "bad": {"too many": lambda: lab.split_indices(10, 8, 8)},
    },
    "SearchResult": {"make": found, "no_example": "returned by random_search"},
    "random_search": {
        "args": lambda: {
            "objective": NETWORK,
            "X": cohort().X,
            "y": cohort().y,
            "holdout": (cohort().X, cohort().y),
            "draws": 3,
            "steps": 2,
        },
        "bad": {
            "rates": lambda: lab.random_search(
                NETWORK, cohort().X, cohort().y, (cohort().X, cohort().y), step_size=(1.0, 0.1)
            )
        },
    },
}

CASES["Difficulty"]["make"] = lambda: lab.difficulty_scores(**CASES["difficulty_scores"]["args"]())
