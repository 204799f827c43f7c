"""Doors of counterplay.tradeoff: batches for models, labels, and tables of losses."""

from __future__ import annotations

from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from counterplay.tradeoff import (
    ChampionChallenger,
    EpochLearner,
    HarmBudget,
    LossStream,
    RiverExperts,
    burst_check,
    error_rate,
    impossibility_report,
    missed_positives,
    play,
    replay_losses,
    required_budget,
    required_rate,
)
from counterplay.tradeoff.lab import cusum

from .animals import frame, labels

MODELS = [LogisticRegression().fit(frame(), labels()), DummyClassifier().fit(frame(), labels())]


class Always:
    """A streaming model with one answer."""

    def predict_one(self, x: Any) -> int:
        """Return the answer."""
        return 1

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn nothing."""


def live(**settings: Any) -> ChampionChallenger:
    """Two models that were fitted on the tame frame."""
    return ChampionChallenger(MODELS, HarmBudget(0.1, 2.0), horizon=80, random_state=0, **settings)


def judged(X: Any, y: Any) -> Any:
    """The report after one batch."""
    guard = live()
    guard.observe(X, y)
    return guard.report(), guard.report().to_frame().to_dict("list")


def losses(X: Any) -> Any:
    """The numbers of a table squeezed into [0, 1], where that can be done."""
    try:
        if isinstance(X, list):
            return [[abs(x) / (1 + abs(x)) for x in row] for row in X]
        return abs(X) / (1 + abs(X))
    except (TypeError, NotImplementedError):
        return X


def played(X: Any) -> Any:
    """A whole play on a table of losses."""
    rounds, K = X.shape if getattr(X, "ndim", 0) == 2 else (24, 3)
    stream = LossStream(losses(X), losses(X), c=0.5)
    transcript = play(EpochLearner(rounds, K, B=1), stream, random_state=0)
    return transcript.primary_regret(), transcript.to_frame().to_dict("list")


def examples(X: Any, y: Any) -> Any:
    """One example per row for streaming models."""
    return RiverExperts([Always()]).replay([({"row": i}, label) for i, label in enumerate(y)])


DOORS = {
    "ChampionChallenger": judged,
    "ChampionChallenger.predict": lambda X, y: live().predict(X),
    "SelectiveChampion.predict": lambda X, y: live(feedback="selective", acceptance=0.5).predict(X),
    "LiveChampion.predict": lambda X, y: live(feedback="live").predict(X),
    "replay_losses": lambda X, y: replay_losses(MODELS, [(X, y)]),
    "RiverExperts": examples,
    "error_rate": lambda X, y: error_rate(y, y),
    "missed_positives": lambda X, y: missed_positives(y, y),
    "LossStream": lambda X, y: played(X),
    "burst_check": lambda X, y: burst_check(losses(X), 0.5, 2.0),
    "required_budget": lambda X, y: required_budget(losses(X), 0.5).to_dict(),
    "required_rate": lambda X, y: required_rate(losses(X), 2.0).to_dict(),
    "impossibility_report": lambda X, y: impossibility_report(losses(X), losses(X)),
    "cusum": lambda X, y: cusum(losses(X), 0.5),
}
NOT_TABLES: dict[str, str] = {}
