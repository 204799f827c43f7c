"""Four hospitals label one pool of patients: who makes how many tests, and does everybody save?"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from counterplay import datasets
from counterplay.labeling import plan_campaign

X, y = datasets.load("breast_cancer", return_X_y=True)
X = StandardScaler().fit_transform(X)[:, :4]
rng = np.random.default_rng(0)

# An older public cohort gives the hypotheses: 200 bootstrapped models, better ones weigh more.
public, patients = np.arange(400), rng.choice(np.arange(400, len(X)), size=80, replace=False)
models, weights = [], []
while len(models) < 200:
    rows = rng.choice(public, size=30)
    if len(set(y[rows])) == 2:
        models.append(LogisticRegression().fit(X[rows], y[rows]))
        error = 1 - models[-1].score(X[public], y[public])
        weights.append(np.exp(-20 * error))

hospitals = np.array(["north", "east", "south", "west"])[rng.integers(0, 4, size=80)]
plan = plan_campaign(
    X[patients], owners=hospitals, hypotheses=models, weights=weights, incentive="sir", eps=0.5
)
print(plan.summary())

# The campaign itself follows the plan, so the plan's numbers speak about it. They are expectations
# if one of the models is right; here none of them is, and the session cannot notice that.
session = plan.start(seed=0)
while (query := session.ask()) is not None:
    session.tell(int(y[patients][query.point]))
print(session.result().summary())
right = float((session.labels == y[patients]).mean())
best = max(float((model.predict(X[patients]) == y[patients]).mean()) for model in models)
print(f"{right:.0%} of all diagnoses right; the best of the 200 models has {best:.0%}")
assert plan.report.is_sir
assert len(session.answers) < 80
assert best < 1.0  # so the labelings do not contain the truth
assert right > 0.8
plan.plot().figure.savefig("labeling_hospitals.png")
