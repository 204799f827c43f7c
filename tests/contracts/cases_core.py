"""Contract cases of counterplay.core."""

import math

from counterplay.core.stats import (
    Interval,
    binomial_p_value,
    clopper_pearson,
    loglog_slope,
    mean_interval,
)
from counterplay.core.transcript import Transcript

CASES = {
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
    "transcript.Transcript": {
        "make": lambda: Transcript({"played": [0, 1], "loss": [0.0, 0.5]}, {"learner": "Hedge"}),
        "run": lambda game: (game.text(), game.to_frame()),
        "bad": {"columns of different length": lambda: Transcript({"a": [1], "b": [1, 2]})},
    },
}
