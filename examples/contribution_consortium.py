"""Four clinics with different case mixes plan how much each labels, on scikit-learn's digits.

First from label histograms alone (nothing but counts leaves a clinic), then from accuracies
measured with a real classifier.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from counterplay.contribution import (
    CoverageGame,
    envy_report,
    plan_consortium,
    plan_contributions,
)

NAMES = ["north", "east", "south", "general"]

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
focus = np.ones((4, 10))
focus[0, :4] = focus[1, 3:7] = focus[2, 6:] = 8.0  # three specialists and a general clinic
parts = [rng.choice(len(y), 350, replace=False, p=f[y] / f[y].sum()) for f in focus]
clinics = [(X[rows], y[rows]) for rows in parts]

# 1. From histograms: how many cases must be seen so that every clinic's case mix is covered?
counts = np.array([np.bincount(labels, minlength=10) for _, labels in clinics])
cover = plan_contributions(CoverageGame.from_histograms(counts, mu=0.9, integral=True), NAMES)
print(cover.summary())

# 2. From data: measured curves say how many rows each clinic should bring, with confidence.
sites = dict(zip(NAMES, clinics))
plan = plan_consortium(sites, "within=0.05", model=GaussianNB(), verify=0, progress=False)
print()
print(plan.summary())
assert (plan.share.rows <= plan.owned).all()
game = plan.curves.game("within=0.05")  # the same as a linear game with caps, at the estimates
assert envy_report(game, plan_contributions(game).envy_free.theta).is_envy_free

# 3. What if the general clinic leaves?
print()
print(plan.what_if(without="general").summary())
plan.plot().figure.savefig("contribution_consortium.png")
