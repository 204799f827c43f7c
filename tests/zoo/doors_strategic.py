"""Doors of counterplay.strategic."""

from __future__ import annotations

from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.strategic import (
    Action,
    Agents,
    Change,
    EstimatorClass,
    LinearClass,
    ManipulationGraph,
    Moves,
    StrategicERM,
    StrategicLinearClassifier,
    cheapest_moves,
    gaming_report,
    rethreshold,
    strategic_accuracy,
    value_of_information,
)
from counterplay.strategic.lab import (
    LocalGraph,
    NeighborhoodLearner,
    RuleSetClass,
    induced_predictions,
)

from .animals import frame, labels

LINEAR = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame(), labels())
FOREST = RandomForestClassifier(3, max_depth=2, random_state=0).fit(frame(), labels())
TREES = [DecisionTreeClassifier(max_depth=2, random_state=s).fit(frame(), labels()) for s in (0, 1)]
RULES = LinearClass.from_estimators([LINEAR, LINEAR])
MOVES = Moves(
    {"income": Change("up"), "debt": Change("down", per="unit", step=0.5)}, reference=frame()
)
STEP = LocalGraph(lambda x: x + 1.0 if x.ndim == 2 else (x + 1.0)[None, :], k=1)


def _report(model, X, y, **options):
    report = gaming_report(model, X, y, **options)
    most = float(report.budget.max())
    return report.to_frame().to_dict("list"), report.moves(most).shape, report.summary()


def _predicted(model, X):
    return model.predict(X).tolist(), model.decision_function(X)


def _actions(X):
    graph = ManipulationGraph.from_actions(X, [Action("save", 0, 0.5, cost=1.0)], budget=1.0)
    return graph.features, graph.indices


def _plan(model, X):
    plan = cheapest_moves(model, X, MOVES, budget=3.0)
    reached = plan.upper <= 3.0
    return plan.lower[reached], plan.upper[reached], plan.exact, plan.summary()


def _moved(model, X, y):
    report = gaming_report(model, X, y, MOVES, budget=[0.0, 1.0])
    return report.to_frame().to_dict("list"), report.moves(1.0).shape, report.summary()


def _cut(model, X, y):
    fix = rethreshold(model, X, y, MOVES, budget=[0.0, 0.5])
    return fix.cut, fix.regret, fix.to_frame().to_dict("list"), fix.summary()


DOORS = {
    "cheapest_moves": lambda X, y: _plan(LINEAR, X),
    "cheapest_moves: forest": lambda X, y: _plan(FOREST, X),
    "gaming_report: moves": lambda X, y: _moved(LINEAR, X, y),
    "Moves.all": lambda X, y: Moves.all(X).describe().shape,
    "Moves.ball": lambda X, y: Moves.ball(X).describe().shape,
    "gaming_report": lambda X, y: _report(LINEAR, X, y),
    "gaming_report: forest": lambda X, y: _report(FOREST, X, y, budget=[0.0, 0.5]),
    "rethreshold": lambda X, y: _cut(LINEAR, X, y),
    "StrategicLinearClassifier: moves": lambda X, y: _predicted(
        StrategicLinearClassifier(Moves.ball(X, per="unit"), budget=0.5).fit(X, y), X
    ),
    "StrategicLinearClassifier": lambda X, y: _predicted(
        StrategicLinearClassifier(radius=0.3).fit(X, y), X
    ),
    "StrategicLinearClassifier: predict": lambda X, y: _predicted(
        StrategicLinearClassifier(radius=0.3).fit(frame(), labels()), X
    ),
    "StrategicERM": lambda X, y: _predicted(
        StrategicERM("halfspace_heuristic", restarts=1, random_state=0).fit(X, y), X
    ),
    "StrategicERM: graph": lambda X, y: (
        StrategicERM("halfspace_heuristic", restarts=1, random_state=0).fit(X, y, graph=STEP).loss_
    ),
    "strategic_accuracy": lambda X, y: strategic_accuracy(LINEAR, X, y),
    "strategic_accuracy: graph": lambda X, y: strategic_accuracy(LINEAR, X, y, graph=STEP),
    "induced_predictions": lambda X, y: induced_predictions(LINEAR, X, STEP),
    "ManipulationGraph": lambda X, y: _actions(X),
    "Agents": lambda X, y: Agents(X, y, radius=0.3).losses(RULES),
    "EstimatorClass": lambda X, y: EstimatorClass(TREES, X).distances(frame()),
    "EstimatorClass: points": lambda X, y: EstimatorClass(TREES, frame()).distances(X),
    "LinearClass": lambda X, y: RULES.distances(X),
    "RuleSetClass": lambda X, y: RuleSetClass.from_trees(TREES).distances(X),
    "value_of_information": lambda X, y: (
        value_of_information(RULES, X, y=y, radius=0.3, repeats=1, random_state=0).oracle_error
    ),
    "NeighborhoodLearner": lambda X, y: (
        NeighborhoodLearner(k=2, people=KMeans(2, n_init=1, random_state=0)).fit(X, y)._table
    ),
}
NOT_TABLES = {
    "estimate_ability": "its tables are read like that of cheapest_moves; these have too few rows",
    "UnionSamplingClassifier": "its table goes to check_points of the catalogue, see LinearClass",
    "FiniteERM": "is fitted to Agents, or to node numbers",
}
