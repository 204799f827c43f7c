"""Five clinics, one model: equal weights lose them one after the other, SafeStep keeps them all.

Each clinic has a dozen patients of the diabetes data and wants a small error on its own patients.
It leaves the training once the broadcast model is good enough for it.
"""

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from counterplay import datasets
from counterplay.defection import (
    FedAvg,
    FederationGame,
    HealthGauge,
    LinearModelProblem,
    SafeStep,
    Server,
    classify_defections,
    land,
    minimal_heterogeneity_linear,
    play,
)

X, y = datasets.load("diabetes", return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
y = (y - y.mean()) / y.std()
features = RBFSampler(gamma=0.05, n_components=150, random_state=0).fit_transform(X)
order = np.argsort(X[:, 2])[::7][:60]  # clinics differ in the body mass index of their patients
clinics = np.array_split(order, 5)

problem = LinearModelProblem([features[c] for c in clinics], [y[c] for c in clinics], tau=1.0)
print("guarantees apply:", bool(minimal_heterogeneity_linear(problem.A_list)))

w0 = np.zeros(problem.dimension)
start = problem.losses(w0)
eps, delta = 0.4 * start, 1e-4
print("error of the empty model:", start.round(3), "  targets:", eps.round(3))

plain = play(Server(FedAvg(), w0, step_size=1.0), FederationGame(problem, eps), rounds=2000)
print("\nequal weights:", plain.summary(), sep="\n")
print(classify_defections(plain).summary())

gauge = HealthGauge(every=50)
kept = play(
    Server(SafeStep(delta), w0, step_size=1 / problem.H, watch=[gauge]),
    FederationGame(problem, eps),
    rounds=5000,
)
print("\nSafeStep:", kept.summary(), sep="\n")
print(gauge.last.summary())

final = land(problem, kept.w, eps)
print("\n" + final.summary())
assert plain.n_defections == 5
assert plain.harmful
assert kept.n_defections == 0
assert final.certified
assert (final.loss <= eps).all()
kept.plot().figure.savefig("defection_clinics.png")
