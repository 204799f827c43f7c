"""A lender with 500 scorecards: what gaming costs, what to deploy, and what feedback is worth.

Real German credit data if a local copy is found (COUNTERPLAY_DATA), else data that comes with
scikit-learn.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from counterplay import datasets
from counterplay.errors import DataUnavailableError, MissingDependencyError
from counterplay.strategic import (
    LinearClass,
    Moves,
    gaming_report,
    rethreshold,
    value_of_information,
)

try:
    data = datasets.fetch("german_credit", download=False)
    movable = np.isin(
        data.feature_names,
        ["duration_months", "credit_amount", "installment_rate", "existing_credits"],
    )
except (DataUnavailableError, MissingDependencyError):
    data = datasets.load("breast_cancer")
    movable = np.ones(data.X.shape[1], dtype=bool)
print(f"{data.name}: {len(data.y)} people, {movable.sum()} of {movable.size} features can move")

X_train, X_test, y_train, y_test = train_test_split(
    data.X, data.y, test_size=0.5, random_state=0, stratify=data.y
)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
costs = np.where(movable, 1.0, np.inf)  # one standard deviation costs 1, the rest cannot be moved

# The model you have: honest and gamed accuracy side by side, then the moved threshold.
naive = LogisticRegression(C=0.1, solver="liblinear").fit(X_train, y_train)
moves = Moves.ball(X_train, per="unit", fixed=np.flatnonzero(~movable).tolist())
report = gaming_report(naive, X_test, y_test, moves, budget=[0.0, 0.5, 1.0, 2.0])
print(report.summary())
before = report.to_frame().set_index("budget")
ready = rethreshold(naive, X_train, None, moves, budget=1.0, objective="decisions").model
after = gaming_report(ready, X_test, y_test, moves, budget=[1.0]).to_frame().iloc[0]
print(
    f"at budget 1: {before.loc[1.0, 'accuracy']:.3f} as it is, {after['accuracy']:.3f} with the "
    f"threshold moved (honest accuracy of the original: {before.loc[0.0, 'accuracy']:.3f})"
)
assert after["accuracy"] == before.loc[0.0, "accuracy"]
assert before.loc[2.0, "false_positives"] >= before.loc[0.0, "false_positives"]

# A catalogue of 500 scorecards, fitted on bootstrap samples; abilities differ between people.
rng = np.random.default_rng(0)
scorecards = []
while len(scorecards) < 500:
    rows = rng.integers(len(y_train), size=150)
    if len(set(y_train[rows])) == 2:
        scorecard = LogisticRegression(C=0.1, solver="liblinear")
        scorecards.append(scorecard.fit(X_train[rows], y_train[rows]))
catalogue = LinearClass.from_estimators(scorecards, costs=costs)
abilities = rng.lognormal(-0.7, 0.6, size=len(X_test))
study = value_of_information(catalogue, X_test, radius=abilities, repeats=8, random_state=0)
print(study.summary())
assert study.mistakes("StrategicHalving").estimate <= np.log2(500)
errors = study.to_frame().set_index("learner")["error"]
assert errors["StrategicHalving"] <= errors["SequentialElimination"]
study.plot().figure.savefig("strategic_scorecards.png")
