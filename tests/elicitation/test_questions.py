"""The forecast of answers and the choice of the next question: fast ways equal the plain ones."""

from __future__ import annotations

import numpy as np

from counterplay.elicitation.forecast import Forecast
from counterplay.elicitation.question_policy import Threats, _Scorer


def test_the_best_pair_is_the_best_of_all() -> None:
    rng = np.random.default_rng(3)
    for seed in range(12):
        values = rng.random((25, 3))
        forecast = Forecast(rng.dirichlet(np.ones(3), 200))
        forecast.learn(values[:2], 0)
        people = rng.dirichlet(np.ones(3), 80)
        threats = Threats(people, rng.random(80))
        for first, widen in ((True, 0.0), (False, 0.0), (False, 0.1)):
            scorer = _Scorer(values, forecast, threats, 0.1, first=first, rng=rng)
            if seed % 3 == 0:  # so far apart that exponentials overflow
                scorer.temperature = scorer.temperature / 1e4
            rows = np.arange(12)
            a, b = np.triu_indices(12, 1)
            pairs = np.column_stack([a, b])
            scores = scorer.pairs(pairs)
            scores -= 1e6 * (scorer.spread(pairs) < widen)
            assert scorer.best(rows, a, b, widen) == scores.argmax()


def test_forecasts_do_not_depend_on_the_order_shown() -> None:
    rng = np.random.default_rng(1)
    forecast = Forecast(rng.dirichlet(np.ones(3), 300))
    for m in (2, 3, 4):
        options = rng.random((m, 3))
        order = rng.permutation(m)
        assert (forecast.predict(options)[order] == forecast.predict(options[order])).all()
        forecast.learn(options, 0)
        assert np.isclose(forecast.posterior.sum(), 1.0)
        assert (forecast.posterior > 0).all()
