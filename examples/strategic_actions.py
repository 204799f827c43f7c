"""A lender knows the cheap moves: fit the rule that is right after people have made them.

German credit data if a local copy is found (COUNTERPLAY_DATA), else breast cancer data that come
with scikit-learn. Actions are in the features' own units: months, amounts, numbers of credits.
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from counterplay import datasets
from counterplay.errors import DataUnavailableError, MissingDependencyError
from counterplay.strategic import (
    Action,
    ManipulationGraph,
    StrategicERM,
    StrategicLinearClassifier,
    bounds,
    strategic_accuracy,
)

try:
    data = datasets.fetch("german_credit", download=False)
    names = ("duration_months", "credit_amount", "installment_rate", "existing_credits", "age")
    X = data.X[:, [data.feature_names.index(name) for name in names]].astype(float)
    X[:, 1] = np.round(X[:, 1], -2)  # amounts in hundreds
    actions = [
        Action("ask for 6 months less", column=0, change=-6, cost=1.0),
        Action("ask for 500 less", column=1, change=-500, cost=1.0),
        Action("close another credit", column=3, change=-1, cost=2.0),
    ]
except (DataUnavailableError, MissingDependencyError):
    data = datasets.load("breast_cancer")
    X = np.round(data.X[:, [0, 1, 4, 5, 8]].astype(float), 2)
    actions = [
        Action("report a radius 1 smaller", column=0, change=-1, cost=1.0),
        Action("report a texture 2 smaller", column=1, change=-2, cost=1.0),
        Action("report a symmetry 0.02 smaller", column=4, change=-0.02, cost=2.0),
    ]
y = np.asarray(data.y)
graph = ManipulationGraph.from_actions(X, actions, budget=2.0)
print(f"{data.name}: {len(y)} people, {graph.n} nodes, at most {graph.k} moves each")

# Standard units for the solvers; the graph keeps its arcs, only coordinates are rescaled.
mean, scale = X.mean(axis=0), X.std(axis=0)
graph = ManipulationGraph.from_matrix(graph.adjacency, features=(graph.features - mean) / scale)
X = (X + 0.0 - mean) / scale
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)

models = {
    "logistic regression": LogisticRegression().fit(X_train, y_train),
    "StrategicLinearClassifier": StrategicLinearClassifier().fit(X_train, y_train, graph=graph),
    "StrategicERM": StrategicERM(restarts=2, random_state=0).fit(X_train, y_train, graph=graph),
}
print(f"{'test accuracy':28}{'nobody moves':>14}{'after moving':>14}")
honest, after = {}, {}
for name, model in models.items():
    honest[name] = strategic_accuracy(model, X_test, y_test)
    after[name] = strategic_accuracy(model, X_test, y_test, graph=graph)
    print(f"{name:28}{honest[name]:14.3f}{after[name]:14.3f}")
erm = models["StrategicERM"]
print(f"StrategicERM ran {erm.backend_}, proved optimal: {erm.optimal_}")

few, many = (bounds.pac_T_agnostic(6, k, eps=0.1) for k in (1, graph.k))
print(f"labels for error within 0.1: {few} with one move each, {many} with {graph.k}")

fitted = strategic_accuracy(models["StrategicLinearClassifier"], X_train, y_train, graph=graph)
naive = strategic_accuracy(models["logistic regression"], X_train, y_train, graph=graph)
assert fitted >= naive
assert after["StrategicLinearClassifier"] >= after["logistic regression"] - 0.02

shown = pd.DataFrame({"nobody moves": honest, "after moving": after})
axes = shown.plot.barh(xlabel="test accuracy", figsize=(7, 3.2))
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2, frameon=False)
axes.figure.savefig("strategic_actions.png", bbox_inches="tight")
