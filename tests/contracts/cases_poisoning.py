"""Contract cases of counterplay.poisoning."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from counterplay import poisoning as p
from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning import bounds, instances, lab
from counterplay.poisoning.chain import Chain

LINE = FiniteClass.thresholds(range(8))
X1 = np.linspace(0.05, 0.95, 10)
Y1 = (X1 > 0.5).astype(int)
PLANE = np.array([[0.1, 0.6], [-0.3, 0.4], [0.2, -0.5], [-0.4, -0.2]])
HALF = lab.LinearTarget([0.0, 1.0], 0.0)
S1 = p.LabelledSet(X1, np.zeros(10))
S2 = p.LabelledSet(PLANE, [1, 1, 0, 0])


def zero(X):
    return np.zeros(len(X))


def above(X, x):
    return X[:, 0] >= x[0]


def line_learner(learner):
    return learner.fit(X1, Y1).predict(X1)


def finite(learner):
    rows = np.tile(np.arange(8), 6)
    return learner.fit(rows, rows >= 3).predict(np.arange(8))


def plane(learner):
    return learner.fit(PLANE, [1, 1, 0, 0]).predict(PLANE)


def attack(game):
    def run(attacker):
        poison = attacker.attack(game.target, game.S, game.X_test[0])
        return poison.X, poison.y

    return run


def report():
    return p.attackable_rate(
        lab.MaxOpenInterval(),
        p.IntervalTarget(),
        S1,
        [[0.33], [0.62]],
        [lab.GapCuttingAttacker()],
        30,
    )


def curve():
    return p.CertifiedAccuracy(np.array([0, 3, 5]), np.array([True, True, False]))


def metrics():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    guard = p.PartitionClassifier(n_partitions=5, classes=(0, 1)).fit(X, (X[:, 0] > 0).astype(int))
    return guard.certified_metrics(X, (X[:, 0] > 0).astype(int), positive=1)


def exposure():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return p.poisoning_report(
        KNeighborsClassifier(1), X, (X[:, 0] > 0).astype(int), n_test=8, random_state=0
    )


CIRCLES = instances.tangent_circles(8, 1e-6, 1, 0)
CHAIN = instances.convex_chain(2, random_state=1)
SVM = instances.svm_half_sphere(6, 4, random_state=0)
MARGIN = instances.margin_half_sphere(30, 3, random_state=0)
SPHERES = instances.circles_on_spheres(40, 8, 1, 1, 0)
STAR = instances.hollow_star_singletons(6, 2, 5, 0)
GAPS = instances.interval_example(8, random_state=0)
DYADIC = instances.PoisoningGame(
    "plane", HALF, S2, np.array([[0.0, 0.05]]), lab.DyadicPathAttacker()
)

ODD_ROWS = {  # one odd row must not stop the training
    "check_dtype_object": "a row with a cell that is no value is left out",
    "check_estimators_nan_inf": "a row that the estimator cannot take costs its block only",
}

CASES = {
    # estimators
    "PartitionClassifier": {
        "make": lambda: p.PartitionClassifier(n_partitions=5),
        "check_estimator": ODD_ROWS,
        "odd_rows": "one odd row must not stop the training",
    },
    "BlockMajorityClassifier": {
        "make": lambda: p.BlockMajorityClassifier(random_state=0),
        "check_estimator": {
            **ODD_ROWS,
            "check_estimator_sparse_tag": "blocks with one row need no estimator",
            "check_estimator_sparse_array": "blocks with one row need no estimator",
            "check_estimator_sparse_matrix": "blocks with one row need no estimator",
        },
        "odd_rows": "one odd row must not stop the training",
    },
    "BatchedMLPClassifier": {
        "make": lambda: p.BatchedMLPClassifier(random_state=0),
        "check_estimator": {"check_dtype_object": "a wrong cell is an InvalidInputError"},
    },
    # learners
    "MinClosedInterval": {"make": lab.MinClosedInterval, "run": line_learner},
    "MaxOpenInterval": {
        "make": lab.MaxOpenInterval,
        "run": line_learner,
        "bad": {"outside [0, 1]": lambda: lab.MaxOpenInterval().fit([2.0], [0])},
    },
    "UnionOfIntervals": {
        "make": p.UnionOfIntervals,
        "run": line_learner,
        "bad": {"both labels": lambda: p.UnionOfIntervals().fit([0.5, 0.5], [0, 1])},
    },
    "OrderedERM": {
        "make": lambda: lab.OrderedERM(LINE),
        "run": finite,
        "bad": {"bad order": lambda: lab.OrderedERM(LINE, [0, 0])},
    },
    "TreeOrderLearner": {
        "make": lambda: lab.TreeOrderLearner(LINE, 0),
        "run": finite,
        "bad": {"VC dimension 2": lambda: lab.TreeOrderLearner(FiniteClass.all_labelings(2))},
    },
    "CallableTreeOrderLearner": {
        "make": lambda: lab.TreeOrderLearner.from_callable(above, zero),
        "run": line_learner,
    },
    "ClosureLearner": {
        "make": lambda: lab.ClosureLearner("intervals"),
        "run": line_learner,
        "bad": {"unknown family": lambda: lab.ClosureLearner("circles")},
    },
    "CoverLearner": {
        "make": lambda: lab.CoverLearner(0.02, random_state=0),
        "run": plane,
        "bad": {"gamma = 0": lambda: lab.CoverLearner(0.0)},
    },
    "DyadicDirectionLearner": {
        "make": lab.DyadicDirectionLearner,
        "run": plane,
        "bad": {"outside": lambda: lab.DyadicDirectionLearner().fit([[3.0, 0.0]], [1])},
    },
    "HardMarginSVM": {
        "make": lab.HardMarginSVM,
        "run": plane,
        "bad": {"not separable": lambda: lab.HardMarginSVM().fit([[0.0], [1.0], [2.0]], [0, 1, 0])},
    },
    "CircleERM": {
        "make": lambda: lab.CircleERM([[3.0, 0.0, 0.0]], random_state=0),
        "run": lambda c: c.fit(SPHERES.S.X, SPHERES.S.y).predict(SPHERES.S.X),
    },
    "SubsampleERM": {
        "make": lambda: lab.SubsampleERM(lab.OrderedERM(LINE), 1, 0.5, random_state=0),
        "run": finite,
        "bad": {"eps = 2": lambda: lab.SubsampleERM(lab.OrderedERM(LINE), 1, 2.0)},
    },
    "ProjectedMajority": {
        "make": lambda: lab.ProjectedMajority(
            lab.OrderedERM(LINE), 1, 2, lab.FiniteProjector(LINE), random_state=0
        ),
        "run": finite,
        "bad": {
            "k_p = 1": lambda: lab.ProjectedMajority(
                lab.OrderedERM(LINE), 1, 1, lab.FiniteProjector(LINE)
            )
        },
    },
    "FiniteProjector": {"make": lambda: lab.FiniteProjector(LINE)},
    "ThresholdProjector": {"make": lambda: lab.ThresholdProjector([0.0, 1.0])},
    "IntervalProjector": {"make": lambda: lab.IntervalProjector([0.0, 1.0])},
    "HalfspaceProjector": {"make": lambda: lab.HalfspaceProjector(PLANE)},
    "UnitDiscScaler": {
        "make": lab.UnitDiscScaler,
        "run": lambda s: s.transform(PLANE),
        "bad": {"radius 0": lambda: lab.UnitDiscScaler(radius=0.0)},
    },
    # targets and sets
    "LabelledSet": {
        "make": lambda: S2,
        "bad": {"label 2": lambda: p.LabelledSet([[0.0]], [2])},
    },
    "TableTarget": {"make": lambda: lab.TableTarget([0, 1]), "run": lambda t: t([1, 0])},
    "IntervalTarget": {
        "make": lambda: p.IntervalTarget([0.2, 0.5]),
        "run": lambda t: t(X1),
        "bad": {"unsorted": lambda: p.IntervalTarget([0.5, 0.2])},
    },
    "LinearTarget": {"make": lambda: HALF, "run": lambda t: t(PLANE)},
    "CircleTarget": {"make": lambda: SPHERES.target, "run": lambda t: t(SPHERES.S.X)},
    # attackers
    "EmptyAttacker": {"make": lab.EmptyAttacker, "run": attack(GAPS)},
    "GapCuttingAttacker": {"make": lab.GapCuttingAttacker, "run": attack(GAPS)},
    "HollowStarAttacker": {"make": lambda: STAR.attacker, "run": attack(STAR)},
    "SphereReflectionAttacker": {
        "make": lambda: lab.SphereReflectionAttacker(1e-6),
        "run": attack(CIRCLES),
        "bad": {"eta = 1": lambda: lab.SphereReflectionAttacker(1.0)},
    },
    "ChainReflectionAttacker": {
        "make": lambda: lab.ChainReflectionAttacker(Chain(2, (0.0, 0.0), 0.3, 1)),
        "run": lambda a: attack(CHAIN)(CHAIN.attacker),
    },
    "OnePointSVMAttacker": {"make": lab.OnePointSVMAttacker, "run": attack(SVM)},
    "MarginReflectionAttacker": {"make": lambda: MARGIN.attacker, "run": attack(MARGIN)},
    "CircleReflectionAttacker": {"make": lambda: SPHERES.attacker, "run": attack(SPHERES)},
    "DyadicPathAttacker": {"make": lab.DyadicPathAttacker, "run": attack(DYADIC)},
    "SqueezePairAttacker": {"make": lab.SqueezePairAttacker, "run": attack(DYADIC)},
    "AcrossBoundaryAttacker": {
        "make": lab.AcrossBoundaryAttacker,
        "run": attack(DYADIC),
        "bad": {"step 1": lambda: lab.AcrossBoundaryAttacker(1.0)},
    },
    "PoolGreedyAttacker": {
        "make": lambda: lab.PoolGreedyAttacker(lab.HardMarginSVM(), PLANE, [1, 1, 0, 0]),
        "run": attack(DYADIC),
        "bad": {"empty pool": lambda: lab.PoolGreedyAttacker(lab.HardMarginSVM(), PLANE[:0], [])},
    },
    # results
    "AttackReport": {"make": report},
    "CertifiedAccuracy": {
        "make": curve,
        "bad": {"lengths": lambda: p.CertifiedAccuracy(np.array([1]), np.array([True, False]))},
    },
    "Schema": {
        "make": lambda: p.Schema.infer(PLANE),
        "run": lambda schema: schema.to_dict(),
        "no_frame": "a schema has no rows",
    },
    "PartitionCurve": {
        "make": lambda: lab.PartitionCurve(np.array([5]), np.array([0.9]), np.array([0.5]), 2)
    },
    "CertifiedMetrics": {
        "make": metrics,
        "run": lambda report: (report.at("recall", 1), report.best_threshold("f1", 1)),
        "bad": {"no such budget": lambda: metrics().at("recall", 99)},
    },
    "UpdateReport": {"make": lambda: lab.UpdateReport(1, 5, 3, 2, 0, 0.1)},
    "PoisoningReport": {"make": exposure},
    # functions
    "attackable_rate": {
        "args": lambda: {
            "learner": lab.MinClosedInterval(),
            "h_star": p.IntervalTarget([0.3, 0.7]),
            "S": p.LabelledSet(X1, p.IntervalTarget([0.3, 0.7])(X1)),
            "X_test": X1,
        }
    },
    "brute_force_region": {
        "args": lambda: {"learner": lab.OrderedERM(LINE), "h_star": LINE.labels[3], "S_idx": [0]},
        "bad": {
            "too many": lambda: lab.brute_force_region(lab.OrderedERM(LINE), np.zeros(60), [0])
        },
    },
    "worst_case_region": {"args": {"H": LINE, "h_star": LINE.labels[3], "S_idx": [0]}},
    "disagreement_region": {
        "args": {"H": LINE, "S": p.LabelledSet([0], [0])},
        "bad": {"unknown": lambda: lab.disagreement_region("circles", S1, X1)},
    },
    "disagreement_rate": {"args": {"H": LINE, "S": p.LabelledSet([0], [0])}},
    "separable": {"args": {"X": PLANE, "y": [1, 1, 0, 0]}},
    "gap_costs": {
        "args": {"gaps": [0.5, 0.3, 0.2]},
        "bad": {"zero gap": lambda: lab.gap_costs([0.5, 0.0])},
    },
    "open_interval_rate": {"args": {"X": X1, "budget": 2}},
    "LineRegion": {
        "make": lambda: p.line_region(
            lab.MinClosedInterval(),
            p.IntervalTarget([0.5, 1.0]),
            p.LabelledSet(X1, Y1),
            n_points=11,
        ),
        "no_example": "returned by line_region",
    },
    "line_region": {
        "args": lambda: {
            "learner": lab.MinClosedInterval(),
            "h_star": p.IntervalTarget([0.5, 1.0]),
            "S": p.LabelledSet(X1, Y1),
            "n_points": 11,
        }
    },
    "row_local": {
        "args": lambda: {"transform": np.log1p, "X": np.ones((4, 2))},
        "bad": {"no rows": lambda: p.row_local(np.log1p, np.ones((4, 2)), n=0)},
    },
    "choose_n_partitions": {
        "args": lambda: {
            "estimator": None,
            "X": np.random.default_rng(0).normal(size=(60, 2)),
            "y": np.arange(60) % 2,
            "candidates": (3, 5),
        }
    },
    "poisoning_report": {
        "args": lambda: {
            "pipeline": KNeighborsClassifier(1),
            "X": np.random.default_rng(0).normal(size=(40, 2)),
            "y": np.arange(40) % 2,
            "n_test": 4,
            "random_state": 0,
        },
        "bad": {
            "budget 0": lambda: p.poisoning_report(
                KNeighborsClassifier(1), PLANE, [0, 1, 0, 1], budget=0
            )
        },
    },
    "bounds.optimal_pac_constant": {
        "args": {"rate": lambda m: 1 / m},
        "bad": {"increasing": lambda: bounds.optimal_pac_constant(lambda m: 1 - 1 / m)},
    },
    "bounds.expectation_to_tail": {"args": {"c": 0.25}},
    "bounds.star_sample_size": {"args": {"s": 2, "eps": 0.1, "delta": 0.1}},
    # bounds
    "bounds.closed_interval_error": {"args": {"p": 0.6, "m": 50}},
    "bounds.open_interval_error": {"args": {"margin": 0.2, "m": 50}},
    "bounds.largest_gap_error": {"args": {"m": 50}},
    "bounds.tree_order_sample_size": {"args": {"eps": 0.1, "delta": 0.1}},
    "bounds.closure_sample_size": {"args": {"d": 4, "eps": 0.1, "delta": 0.1}},
    "bounds.union_of_intervals_sample_size": {"args": {"k": 3, "eps": 0.1, "delta": 0.1}},
    "bounds.grid_cells": {"args": {"n": 2, "rho": 0.5}},
    "bounds.cover_sample_size": {"args": {"cells": 49, "eps": 0.1, "delta": 0.1}},
    "bounds.linear2d_sample_size": {"args": {"eps": 0.1, "delta": 0.1}},
    "bounds.dyadic_rate": {"args": {"eps1": 0.005, "eps2": 0.1, "f": 0.1}},
    "bounds.dyadic_margin_sample_size": {"args": {"gamma": 0.1, "eps": 0.1, "delta": 0.05}},
    "bounds.block_majority_sample_size": {"args": {"t": 1, "d": 1, "eps": 0.1, "delta": 0.05}},
    "bounds.projected_majority_sample_size": {
        "args": {"t": 1, "d": 1, "k_p": 3, "eps": 0.1, "delta": 0.05}
    },
    "bounds.subsample_sample_size": {"args": {"t": 1, "d": 1, "eps": 0.1, "delta": 0.05}},
    "bounds.amplified_size": {"args": {"m": 1000, "delta": 0.1}},
    "bounds.hollow_star_rate": {"args": {"k": 11, "m": 5}},
    "bounds.sphere_reflection_rate": {"args": {"eta": 1e-3, "m": 30}},
    "bounds.sphere_reflection_eta": {"args": {"tol": 0.01, "m": 30}},
    "bounds.chain_rate": {"args": {"m": 3}},
    "bounds.one_point_svm_size": {"args": {"n": 50, "eps": 0.01}},
    "bounds.circle_rate": {"args": {"m": 200, "t": 4, "d": 1}},
    "bounds.subsample_size": {"args": {"m": 3000, "t": 1, "eps": 0.1}},
    # instances
    "instances.PoisoningGame": {"make": lambda: GAPS},
    "instances.interval_example": {"args": {"m": 5, "random_state": 0}},
    "instances.hollow_star_singletons": {"args": {"k": 6, "m": 2, "random_state": 0}},
    "instances.simplex_set": {"args": {"n": 3}},
    "instances.tangent_circles": {"args": {"m": 5, "eta": 1e-3, "random_state": 0}},
    "instances.convex_chain": {"args": {"m": 2, "random_state": 0}},
    "instances.svm_half_sphere": {"args": {"n": 5, "m_plus": 3, "random_state": 0}},
    "instances.margin_half_sphere": {"args": {"n": 10, "m_plus": 3, "random_state": 0}},
    "instances.singletons_and_zero": {"args": {"k": 6, "m": 2, "random_state": 0}},
    "instances.circles_on_spheres": {"args": {"m": 20, "t": 2, "random_state": 0}},
    # lab
    "star_number": {"args": {"cls": LINE}},
    "StarSet": {
        "make": lambda: p.lab.star_number(LINE),
        "no_example": "shown by star_number",
        "no_frame": "a certificate, not a table",
    },
    "hollow_star_number": {"args": {"cls": LINE}},
    "HollowStar": {
        "make": lambda: p.lab.hollow_star_number(LINE),
        "no_example": "shown by hollow_star_number",
        "no_frame": "a certificate, not a table",
    },
    "projection_number": {"args": {"cls": LINE}},
    "ProjectionNumber": {
        "make": lambda: p.lab.projection_number(LINE),
        "no_example": "shown by projection_number",
        "no_frame": "a certificate, not a table",
    },
    "projection_value": {
        "args": {"cls": LINE, "points": [0, 1], "labels": [1, 0]},
        "bad": {"no points": lambda: p.lab.projection_value(LINE, [], [])},
        "no_example": "the value behind projection_number",
    },
}
