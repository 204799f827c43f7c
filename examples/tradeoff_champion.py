"""Which model reads the meters? Fewest errors, but customers must not be overcharged too often.

Six classifiers, trained on different windows of the digits that scikit-learn ships, read a stream
of digits in batches of five. Primary loss: share of wrong digits. Harm: share read too large.
With COUNTERPLAY_DATA set, the same is done with real flu forecasts of eight research teams.
"""

import os
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from counterplay.errors import AssumptionWarning, DataUnavailableError
from counterplay.tradeoff import (
    ChampionChallenger,
    HarmBudget,
    error_rate,
    impossibility_report,
    replay_losses,
    required_budget,
)


def read_too_large(y_true, y_pred):
    return float(np.mean(y_pred > y_true))


def digits() -> ChampionChallenger:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    models = []
    for start in (0, 200):
        rows = slice(start, start + 200)
        models += [
            KNeighborsClassifier(3).fit(X[rows], y[rows]),
            GaussianNB(var_smoothing=1e-2).fit(X[rows], y[rows]),
            LogisticRegression(max_iter=2000).fit(X[rows], y[rows]),
        ]
    batches = [(X[i : i + 5], y[i : i + 5]) for i in range(400, len(X) - 4, 5)]
    history, future = batches[:60], batches[60:]
    l1, l2 = replay_losses(models, history, primary=error_rate, secondary=read_too_large)
    budget = HarmBudget(rate=0.08, burst=max(1.0, required_budget(l2, c=0.08).median()))
    print(impossibility_report(l1, l2, c=budget.rate, alpha=0.3).summary(), "\n")
    live = ChampionChallenger(
        models,
        budget,
        horizon=len(future),
        policy="adaptive",
        secondary=read_too_large,
        random_state=0,
    )
    for X_batch, y_batch in future:
        live.predict(X_batch)  # what the customers get
        live.observe(X_batch, y_batch)  # later the true digits are known
    return live


def flu() -> ChampionChallenger:
    from counterplay.studies.tradeoff.streams import flu_stream

    stream = flu_stream()
    burst = required_budget(stream.history[1], stream.rate).quantile(0.25)
    l1, l2 = stream.future
    live = ChampionChallenger(
        n_models=len(stream.models),
        horizon=len(l1),
        budget=HarmBudget(stream.rate, burst),
        policy="adaptive",
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # the report says the same
        for primary, harm in zip(l1, l2):
            live.step(primary, harm)
    print("flu forecasts:", ", ".join(stream.models))
    return live


def main() -> None:
    live = digits()
    print(live.report().summary())
    print(live.report().to_frame().round(3), "\n")
    if os.environ.get("COUNTERPLAY_DATA"):
        try:
            print(flu().report().summary())
        except DataUnavailableError as error:
            print(error)
    live.report().dashboard().savefig("tradeoff_champion.png")


if __name__ == "__main__":
    main()
