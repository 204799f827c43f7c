"""Contract cases of counterplay.core."""

import math
from typing import Any

import numpy as np

from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.halfspaces import halfspaces_2d, halfspaces_lp
from counterplay.core.online import (
    Doubling,
    ExploreThenCommit,
    FollowLazyLeader,
    FollowPerturbedLeader,
    FollowTheLeader,
    Hedge,
    MaximalCouplingSampler,
    ScalarLearner,
    ShrinkingDartboard,
    maximal_coupling,
)
from counterplay.core.stats import (
    Interval,
    binomial_p_value,
    clopper_pearson,
    loglog_slope,
    mean_interval,
)
from counterplay.core.transcript import Transcript
from counterplay.core.version_space import Observation, VersionSpace
from counterplay.core.votes import (
    majority,
    margins,
    minority_counts,
    plurality,
    random_blocks,
)

LINE = FiniteClass.thresholds(range(5))
SQUARE = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
LOSSES = np.random.default_rng(0).random((12, 3))


def stream(learner: ScalarLearner) -> list[Any]:
    """Play the fixed losses round by round with a fixed seed."""
    learner.reset(3, len(LOSSES), random_state=0)
    path = []
    for loss in LOSSES:
        path.append(learner.act())
        learner.observe(loss)
    return [path, learner.probs()]


def bad_losses(learner: ScalarLearner) -> dict[str, Any]:
    """Return calls that every learner over experts must refuse."""
    return {
        "wrong number of losses": lambda: learner.reset(3, 5, 0).observe([0.1, 0.2]),
        "NaN loss": lambda: learner.reset(2, 5, 0).observe([0.1, math.nan]),
        "loss above one": lambda: learner.reset(2, 5, 0).observe([0.1, 1.5]),
        "no experts": lambda: learner.reset(0, 5, 0),
        "empty loss matrix": lambda: learner.marginals(np.zeros((0, 3))),
    }


ONLINE = {
    f"online.{type(make()).__name__}": {"make": make, "run": stream, "bad": bad_losses(make())}
    for make in (
        Hedge,
        ShrinkingDartboard,
        FollowLazyLeader,
        FollowTheLeader,
        FollowPerturbedLeader,
        lambda: ExploreThenCommit(3),
        Doubling,
        lambda: MaximalCouplingSampler(Hedge()),
    )
}

DIMENSIONS = {
    "dimensions.vc_dimension": {
        "args": {"cls": LINE},
        "bad": {
            "empty matrix": lambda: vc_dimension(np.zeros((0, 3))),
            "label 3": lambda: vc_dimension([[0, 3]]),
        },
    },
    "dimensions.Shattering": {
        "make": lambda: vc_dimension(LINE),
        "no_example": "shown by vc_dimension",
        "no_frame": "a certificate, not a table",
    },
}

CLASSES = {
    "finite_class.FiniteClass": {
        "make": lambda: FiniteClass.thresholds(range(5)),
        "run": lambda cls: (cls.labels, cls.union([0, 1]), cls.to_dict()),
        "bad": {
            "no rows": lambda: FiniteClass.from_matrix(np.zeros((0, 3))),
            "label 2": lambda: FiniteClass.from_matrix([[0, 2]]),
            "wrong number of weights": lambda: FiniteClass.from_matrix([[0, 1]], weights=[1, 1]),
            "negative weight": lambda: FiniteClass.from_matrix([[0, 1]], weights=[-1.0]),
            "NaN point": lambda: FiniteClass.thresholds([0.0, math.nan]),
        },
    },
    "finite_class.Deduplication": {
        "make": lambda: FiniteClass.from_matrix([[0, 1], [0, 1], [1, 1]]).deduplicated(),
        "no_example": "returned by FiniteClass.deduplicated",
    },
    "version_space.VersionSpace": {
        "make": lambda: VersionSpace(LINE),
        "run": lambda space: (space.observe(2, 1), space.alive, space.elim_time, space.entropy()),
        "bad": {
            "contradiction": lambda: VersionSpace(LINE).observe_many([0, 1], [1, 0]),
            "no hypotheses": lambda: VersionSpace(0),
            "wrong number of weights": lambda: VersionSpace(LINE, weights=[1.0]),
        },
    },
    "version_space.Observation": {
        "make": lambda: Observation(0, 1, 1, 2),
        "no_example": "an entry of VersionSpace.history",
    },
    "halfspaces.halfspaces_2d": {
        "args": {"points": SQUARE},
        "bad": {
            "three coordinates": lambda: halfspaces_2d([[0.0, 1.0, 2.0]]),
            "NaN": lambda: halfspaces_2d([[0.0, math.nan]]),
        },
    },
    "halfspaces.halfspaces_lp": {
        "args": {"points": SQUARE},
        "bad": {"NaN": lambda: halfspaces_lp([[0.0, math.nan]])},
    },
}

VOTES = {
    "votes.Partition": {"make": lambda: random_blocks(10, 3, random_state=0), "run": list},
    "votes.random_blocks": {
        "args": {"n_rows": 10, "n_blocks": 3, "random_state": 0},
        "bad": {
            "more blocks than rows": lambda: random_blocks(2, 3),
            "no blocks": lambda: random_blocks(2, 0),
        },
    },
    "votes.Vote": {
        "make": lambda: plurality([[0, 1], [1, 1], [1, 2]]),
        "run": lambda vote: (vote.labels, vote.gap, vote.tolerance),
        "no_example": "shown by plurality",
    },
    "votes.plurality": {
        "args": {"votes": [[0, 1], [1, 1], [1, 2]]},
        "bad": {"nobody votes": lambda: plurality(np.zeros((0, 2)))},
    },
    "votes.majority": {
        "args": {"votes": [[0, 1], [1, 1]], "tie": 0},
        "bad": {
            "label 2": lambda: majority([[2]]),
            "tie": lambda: majority([[0], [1]], tie="raise"),
        },
    },
    "votes.margins": {
        "args": {"votes": [[0, 1], [1, 1]]},
        "bad": {"nobody votes": lambda: margins(np.zeros((0, 2)))},
    },
    "votes.minority_counts": {
        "args": {"votes": [[0, 1], [1, 1]]},
        "bad": {"one axis": lambda: minority_counts([0, 1])},
    },
}


STATS = {
    "stats.Interval": {"make": lambda: Interval(0.5, 0.4, 0.6)},
    "stats.binomial_p_value": {
        "args": {"successes": 3, "trials": 10, "probability": 0.5},
        "bad": {
            "more successes than trials": lambda: binomial_p_value(11, 10, 0.5),
            "probability above one": lambda: binomial_p_value(1, 10, 1.5),
        },
    },
    "stats.clopper_pearson": {
        "args": {"successes": 3, "trials": 10},
        "bad": {
            "more successes than trials": lambda: clopper_pearson(11, 10),
            "no trials": lambda: clopper_pearson(0, 0),
            "confidence of one": lambda: clopper_pearson(1, 2, confidence=1.0),
        },
    },
    "stats.loglog_slope": {
        "args": {"x": [1, 2, 4], "y": [1, 4, 16]},
        "bad": {
            "negative value": lambda: loglog_slope([1, 2, 4], [1, -4, 16]),
            "different lengths": lambda: loglog_slope([1, 2, 4], [1, 4]),
            "NaN": lambda: loglog_slope([1, 2, math.nan], [1, 4, 16]),
        },
    },
    "stats.mean_interval": {
        "args": {"values": [1.0, 2.0, 4.0]},
        "bad": {
            "one value": lambda: mean_interval([1.0]),
            "NaN": lambda: mean_interval([1.0, math.nan]),
        },
    },
}

CASES = {
    **ONLINE,
    **DIMENSIONS,
    **CLASSES,
    **VOTES,
    **STATS,
    "online.LazyChain": {
        "make": lambda: ShrinkingDartboard().chain(LOSSES),
        "run": lambda chain: (chain.expected_switches, chain.sample(3, random_state=0)),
    },
    "online.maximal_coupling": {
        "args": {"marginals": [[0.5, 0.5], [0.75, 0.25]]},
        "bad": {"not a distribution": lambda: maximal_coupling([[0.5, 0.6], [0.5, 0.5]])},
    },
    "transcript.Transcript": {
        "make": lambda: Transcript({"played": [0, 1], "loss": [0.0, 0.5]}, {"learner": "Hedge"}),
        "run": lambda game: (game.text(), game.to_frame()),
        "bad": {"columns of different length": lambda: Transcript({"a": [1], "b": [1, 2]})},
    },
}
