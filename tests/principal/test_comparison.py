from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import Decision, UnbiasedForecaster, compare_forecasters
from counterplay.principal.lab import (
    Bins,
    EmpiricalMeanForecaster,
    EWMAForecaster,
)


def anti_recent(T, decay, threshold):
    """Rain comes exactly when the recent average says it will not."""
    recent, rain = EWMAForecaster(2, decay=decay), []
    for _ in range(T):
        rain.append(int(recent.predict_one()[1] < threshold))
        recent.learn_one(rain[-1])
    return np.array(rain)


def test_comparison_where_averages_fail():
    """Averages are biased where decisions change if the sequence reacts to them; ours is not."""
    T = 2000
    rain = anti_recent(T, decay=0.02, threshold=0.3)
    umbrella = Decision([[0.0, -1.0], [-0.3, -0.3]], name="umbrella", actions=["no", "yes"])
    found = compare_forecasters(
        rain,
        {
            "unbiased": UnbiasedForecaster(),
            "average": EmpiricalMeanForecaster(),
            "recent": EWMAForecaster(decay=0.02),
            "given": np.tile([0.5, 0.5], (T, 1)),
        },
        [umbrella, Bins(1, 4)],
    )
    totals = found.totals()
    assert totals.drop(index="given")["worst_family_bias"].idxmin() == "unbiased"
    assert totals.loc["unbiased", "worst_family_bias"] < 0.05
    assert totals.loc["recent", "worst_family_bias"] > 0.1
    assert totals.loc["given", "brier"] == pytest.approx(0.5)
    assert totals.loc["given", "log_loss"] == pytest.approx(np.log(2))
    frame = found.to_frame()
    assert set(frame["family"]) == {"umbrella", "bin of outcome 1"}
    counts = frame.groupby(["forecaster", "family"])["n"].sum()
    assert (counts == T).all()
    assert "unbiased" in found.summary()
    assert found.plot().get_xlabel()
    with pytest.raises(InvalidInputError, match="one forecast per outcome"):
        compare_forecasters([0, 1], {"short": [[0.5, 0.5]]}, [umbrella])
