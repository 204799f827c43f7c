"""Contract cases of counterplay.invariance."""

from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge

from counterplay.core.finite_class import FiniteClass
from counterplay.invariance import (
    AugmentedClassifier,
    AugmentedRegressor,
    CanonicalClassifier,
    Canonicalizer,
    ErmInvClassifier,
    OrbitFeatures,
    OrbitKernelClassifier,
    OrbitMeanRegressor,
    OrbitVoteClassifier,
    SymmetryClassifier,
    SymmetryRegressor,
    augmented_blocks,
    bounds,
    check_symmetry,
    find_symmetries,
    groups,
    instances,
    lab,
    symmetry_advisor,
)
from counterplay.invariance.lab import (
    DA,
    ERM,
    AbstractOrbits,
    AdaptiveAgnostic,
    AdaptiveRelaxed,
    AgnosticCompression,
    AllLabelings,
    AlphaBoostCompression,
    BalancedSubsets,
    BlockConstants,
    ConfidenceBooster,
    CoordinatePermutationGroup,
    ErmInv,
    ExplicitClass,
    FiniteDistribution,
    FiniteProblem,
    FittedCommittee,
    Halfspaces2D,
    Intervals1D,
    KnownEta,
    MapSet,
    MatrixGroup,
    OneInclusionEta,
    OneInclusionInvariant,
    OneInclusionRelaxed,
    OrbitOnlyOptimal,
    SignFlipGroup,
    SymmetricGroup,
    TheoryView,
    Thresholds1D,
    TieRule,
    TrivialGroup,
    WeightedSample,
    check_sample_invariant,
    classify_regime,
    dim,
    mu_of,
    theory_lab,
    tic_tac_toe_endgames,
    vcao,
    vco_eta,
)

HARD = instances.da_lower_bound(3, 1 / 64, random_state=0)
BIRDS = instances.background_birds(3, random_state=0)
SAMPLE = HARD.distribution.sample(40, 0)
LINE = np.array([[1.0], [2.0], [3.0]])
ROWS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = (ROWS[:, 0] > ROWS[:, 2]).astype(int)


def learn(learner: Any) -> Any:
    """Fit on a fixed sample and predict the whole pool."""
    return learner.fit(*SAMPLE).predict(np.arange(HARD.problem.n_points))


def advice() -> Any:
    return symmetry_advisor(
        LogisticRegression(), ROWS, LABELS, groups.sequence_reversal(3), n_splits=2, n_boot=20,
        random_state=0,
    )  # fmt: skip


def labels_checked() -> Any:
    return check_symmetry(ROWS, LABELS, groups.sequence_reversal(3), random_state=0)


LEARNERS = {
    name: {"make": make, "run": learn}
    for name, make in {
        "ERM": lambda: ERM(HARD.problem, tie="random", random_state=0),
        "DA": lambda: DA(HARD.problem),
        "ErmInv": lambda: ErmInv(ERM(HARD.problem)),
        "OneInclusionInvariant": lambda: OneInclusionInvariant(HARD.problem),
        "OneInclusionRelaxed": lambda: OneInclusionRelaxed(HARD.problem),
        "OneInclusionEta": lambda: OneInclusionEta(HARD.problem, eta=0.5),
        "OrbitOnlyOptimal": lambda: OrbitOnlyOptimal(HARD.problem, random_state=0),
        "ConfidenceBooster": lambda: ConfidenceBooster(
            OneInclusionInvariant(HARD.problem), 0, practical=True, random_state=0
        ),
        "AlphaBoostCompression": lambda: AlphaBoostCompression(
            OneInclusionRelaxed(HARD.problem), 9, random_state=0
        ),
        "AgnosticCompression": lambda: AgnosticCompression(HARD.problem, random_state=0),
        "KnownEta": lambda: KnownEta(HARD.problem, practical=True),
        "AdaptiveRelaxed": lambda: AdaptiveRelaxed(HARD.problem, practical=True, random_state=0),
        "AdaptiveAgnostic": lambda: AdaptiveAgnostic(HARD.problem, inner="erm-inv", random_state=0),
    }.items()
}
LEARNERS["ERM"]["bad"] = {
    "unknown tie": lambda: ERM(HARD.problem, tie="last"),
    "too few labels": lambda: ERM(HARD.problem).fit([0, 1], [1]),
    "label 2": lambda: ERM(HARD.problem).fit([0], [2]),
}
LEARNERS["OneInclusionInvariant"]["bad"] = {
    "conflict": lambda: OneInclusionInvariant(HARD.problem).fit([1, 7], [0, 1]),
    "not fitted": lambda: OneInclusionInvariant(HARD.problem).predict([0]),
    "no group": lambda: OneInclusionInvariant([[0, 1]]),
}

CHECKS = {"check_dtype_object": "a cell that is a dict raises InvalidInputError, not TypeError"}
WRAPPERS = {
    "ErmInvClassifier": {
        # scikit-learn's sparse rows are often equal with different labels: that would raise
        "make": lambda: ErmInvClassifier(LogisticRegression(), on_conflict="majority"),
        "bad": {"not a group": lambda: ErmInvClassifier(LogisticRegression(), 3).fit(ROWS, LABELS)},
    },
    "AugmentedRegressor": {"make": lambda: AugmentedRegressor(Ridge())},
    "OrbitMeanRegressor": {"make": lambda: OrbitMeanRegressor(Ridge())},
    "OrbitFeatures": {"make": lambda: OrbitFeatures(n_templates=5, random_state=0)},
    "Canonicalizer": {"make": lambda: Canonicalizer(), "odd_rows": "missing values are moved"},
    "SymmetryClassifier": {
        "make": lambda: SymmetryClassifier(LogisticRegression(), random_state=0)
    },
    "SymmetryRegressor": {"make": lambda: SymmetryRegressor(Ridge(), random_state=0)},
    "AugmentedClassifier": {
        "make": lambda: AugmentedClassifier(LogisticRegression()),
        "bad": {
            "unknown weighting": lambda: AugmentedClassifier(
                LogisticRegression(), weighting="heavy"
            ).fit(ROWS, LABELS)
        },
    },
    "OrbitVoteClassifier": {"make": lambda: OrbitVoteClassifier(LogisticRegression())},
    "CanonicalClassifier": {
        "make": lambda: CanonicalClassifier(LogisticRegression()),
        "bad": {
            "unknown form": lambda: CanonicalClassifier(LogisticRegression(), form="best").fit(
                ROWS, LABELS
            )
        },
    },
    "OrbitKernelClassifier": {
        "make": OrbitKernelClassifier,
        "bad": {"other": lambda: OrbitKernelClassifier(compare="none").fit(ROWS, LABELS)},
    },
}

for wrapper in WRAPPERS.values():
    wrapper["check_estimator"] = CHECKS

GROUPS = {
    "TrivialGroup": {"make": TrivialGroup},
    "CoordinatePermutationGroup": {
        "make": lambda: groups.d4((3, 3)),
        "bad": {"not closed": lambda: CoordinatePermutationGroup([[0, 1, 2], [1, 2, 0]])},
    },
    "SignFlipGroup": {"make": lambda: SignFlipGroup([[1, 0]])},
    "MatrixGroup": {
        "make": lambda: groups.plane_rotations(4),
        "bad": {"no identity": lambda: MatrixGroup([-np.eye(2)])},
    },
    "SymmetricGroup": {"make": lambda: SymmetricGroup(1)},
    "AbstractOrbits": {
        "make": lambda: AbstractOrbits([0, 0, 1]),
        "bad": {"unknown point": lambda: AbstractOrbits([0, 0]).orbit_key([5])},
    },
    "MapSet": {
        "make": lambda: MapSet([[0, 1], [1, 1]]),
        "bad": {"no identity": lambda: MapSet([[1], [0]])},
    },
    "groups.ValidityReport": {"make": lambda: groups.check_validity(groups.sign_flips(1), LINE)},
    "groups.check_validity": {"args": {"group": groups.sign_flips(1), "X": LINE}},
    "groups.colour_permutations": {"args": {"shape": (2, 2, 3)}},
    "groups.column_permutations": {
        "args": {"n_features": 3},
        "bad": {"overlap": lambda: groups.column_permutations(3, [[0, 1], [1, 2]])},
    },
    "groups.common_factor": {
        "args": {"n_features": 3, "columns": [0, 1]},
        "bad": {"twice": lambda: groups.common_factor(3, [0, 0])},
    },
    "groups.cyclic_shifts": {"args": {"length": 4}},
    "groups.d4": {"args": {"shape": (2, 2)}, "bad": {"oblong": lambda: groups.d4((2, 3))}},
    "groups.from_callables": {"args": {"functions": [np.asarray], "n_features": 2}},
    "groups.graph_relabelling": {"args": {"n_nodes": 3}},
    "groups.image_flips": {"args": {"shape": (2, 2)}},
    "groups.image_jitter": {"args": {"shape": (2, 2)}},
    "groups.image_rotations": {
        "args": {"shape": (2, 2)},
        "bad": {"eight angles": lambda: groups.image_rotations((2, 2), 8)},
    },
    "groups.image_shifts": {"args": {"shape": (2, 2)}},
    "groups.image_turns": {"args": {"shape": (2, 2)}},
    "groups.plane_motions": {"args": {"n_points": 3}},
    "groups.plane_rotations": {"args": {"n": 3}},
    "groups.reverse_complement": {"args": {"length": 3}},
    "groups.sequence_reversal": {"args": {"length": 3}},
    "groups.set_permutations": {"args": {"n_elements": 3}},
    "groups.sign_flips": {"args": {"n_features": 2}},
    "groups.space_motions": {"args": {"n_points": 3}},
}

MODEL = {
    "WeightedSample": {"make": lambda: WeightedSample(np.arange(2), np.array([0, 1]), np.ones(2))},
    "TieRule": {
        "make": lambda: TieRule("first", np.random.default_rng(0)),
        "bad": {"no truth": TieRule("adversarial", np.random.default_rng(0)).known_truth},
    },
    "AllLabelings": {"make": lambda: AllLabelings(5)},
    "BalancedSubsets": {"make": lambda: BalancedSubsets(2)},
    "BlockConstants": {"make": lambda: BlockConstants(2, 3)},
    "ExplicitClass": {"make": lambda: ExplicitClass([[0, 1], [1, 1]])},
    "FittedCommittee": {
        "make": lambda: FittedCommittee([DummyClassifier().fit(ROWS, LABELS)]),
        "bad": {"nobody": lambda: FittedCommittee([])},
    },
    "Halfspaces2D": {"make": Halfspaces2D},
    "Intervals1D": {"make": Intervals1D},
    "Thresholds1D": {"make": Thresholds1D},
    "FiniteProblem": {
        "make": lambda: FiniteProblem([[0, 1], [1, 1]], [0, 0]),
        "bad": {
            "label 2": lambda: FiniteProblem([[0, 2]], [0, 1]),
            "too few orbits": lambda: FiniteProblem([[0, 1]], [0]),
        },
    },
    "FiniteDistribution": {
        "make": lambda: FiniteDistribution([0, 1], [0, 1], [0.5, 0.5]),
        "bad": {"mass 2": lambda: FiniteDistribution([0, 1], [0, 1], [1.0, 1.0])},
    },
    "Regime": {
        "make": lambda: classify_regime(HARD.problem, None, HARD.distribution),
        "no_example": "shown by classify_regime",
    },
    "classify_regime": {"args": {"H": HARD.problem, "G": None, "D": HARD.distribution}},
    "check_sample_invariant": {
        "args": {"group": HARD.group, "X": [1, 2], "y": [1, 0]},
        "bad": {"conflict": lambda: check_sample_invariant(HARD.group, [1, 7], [0, 1])},
    },
    "CertifiedPredictions": {
        "make": lambda: OneInclusionRelaxed(HARD.problem).fit(*SAMPLE).certify([0, 1, 2])
    },
    "OneInclusionView": {
        "make": lambda: OneInclusionRelaxed(HARD.problem).fit([], []).explain(1),
    },
    "MuResult": {
        "make": lambda: mu_of(BIRDS.problem, None, [0, 1]),
        "no_example": "shown by mu_of",
    },
    "mu": {"args": {"H": BIRDS.problem}},
    "mu_of": {
        "args": {"H": BIRDS.problem, "G": None, "orbits": [0, 1]},
        "bad": {"twice": lambda: mu_of(BIRDS.problem, None, [0, 0])},
    },
    "OrbitCube": {
        "make": lambda: dim(BIRDS.problem),
        "no_example": "shown by dim",
        "no_frame": "a certificate, not a table",
    },
    "dim": {"args": {"H": BIRDS.problem}},
    "vcdim": {"args": {"H": HARD.problem}},
    "vcao": {"args": {"H": HARD.problem}, "bad": {"no orbits": lambda: vcao([[0, 1]])}},
    "vco": {"args": {"H": HARD.problem}},
    "vco_eta": {
        "args": {"H": BIRDS.problem, "G": None, "D": BIRDS.distribution, "m": 1, "eta": 0.5},
        "bad": {"m": lambda: vco_eta(BIRDS.problem, None, BIRDS.distribution, -1, 0.5)},
    },
    "vco_eta_sup": {
        "args": {"H": BIRDS.problem, "G": None, "D": BIRDS.distribution, "eta": 0.5},
    },
    "theory_lab": {
        "args": {"H": BIRDS.problem, "sample_sizes": (1,), "n_runs": 3, "random_state": 0},
        "bad": {"one run": lambda: theory_lab(BIRDS.problem, n_runs=1)},
    },
    "TheoryReport": {
        "make": lambda: theory_lab(BIRDS.problem, sample_sizes=(1,), n_runs=3, random_state=0),
        "no_example": "shown by theory_lab",
    },
    "SymmetryAdvice": {"make": advice},
    "SymmetryCheck": {"make": labels_checked},
    "SymmetrySearch": {
        "make": lambda: find_symmetries(ROWS, LABELS, kind="sequence", random_state=0)
    },
    "Naturalness": {
        "make": lambda: labels_checked().natural,
        "no_example": "shown by check_symmetry",
    },
    "TheoryView": {
        "make": lambda: TheoryView(4, 4, 2),
        "no_example": "shown by symmetry_advisor",
    },
    "invariance_floor": {"args": {"mass": [[1, 2], [3, 0]]}},
    "check_symmetry": {
        "args": {
            "X": ROWS,
            "y": LABELS,
            "group": groups.sequence_reversal(3),
            "random_state": 0,
        },
        "bad": {
            "nothing moves": lambda: check_symmetry(ROWS, LABELS, None),
            "one class": lambda: check_symmetry(
                ROWS, np.zeros(40, int), groups.sequence_reversal(3)
            ),
        },
    },
    "find_symmetries": {
        "args": {"X": ROWS, "y": LABELS, "kind": "sequence", "random_state": 0},
        "bad": {"no shape": lambda: find_symmetries(ROWS, LABELS, kind="image")},
    },
    "augmented_blocks": {
        "args": {"X": LINE, "y": [0, 1, 0], "group": groups.sign_flips(1), "random_state": 0},
        "bad": {"no rows": lambda: augmented_blocks(LINE, [0, 1, 0], None, block_rows=0)},
    },
    "symmetry_advisor": {
        "args": {
            "estimator": LogisticRegression(),
            "X": ROWS,
            "y": LABELS,
            "group": groups.sequence_reversal(3),
            "n_splits": 2,
            "n_boot": 20,
            "random_state": 0,
        },
        "bad": {
            "short y": lambda: symmetry_advisor(LogisticRegression(), ROWS, [0], None),
        },
    },
    "augmented_sample": {"args": {"X": LINE, "y": [0, 1, 0], "group": groups.sign_flips(1)}},
    "one_hot_boards": {"args": lambda: {"X": tic_tac_toe_endgames()[0][:3]}},
    "tic_tac_toe_endgames": {"args": {}},
}

BOUNDS = {
    "bounds.expected_error": {"args": {"dimension": 2.0, "n": 10}},
    "bounds.booster_sizes": {"args": {"d": 2.0, "eps": 0.1, "delta": 0.1}},
    "bounds.m_oig": {"args": {"d": 2.0, "eps": 0.1, "delta": 0.1}},
    "bounds.m_da": {"args": {"d": 2, "eps": 0.1, "delta": 0.1}},
    "bounds.m_erminv_agnostic": {"args": {"d": 2, "eps": 0.1, "delta": 0.1}},
    "bounds.m_orbit_only": {"args": {"k": 3, "eps": 0.1, "delta": 0.1}},
    "bounds.known_eta_sizes": {
        "args": {"m": 500, "delta": 0.1},
        "bad": {"few": lambda: bounds.known_eta_sizes(10, 0.1)},
    },
    "bounds.invariance_slack": {"args": {"n": 10}},
    "bounds.known_eta_error": {"args": {"dimension": 1.0, "n": 10}},
    "bounds.alpha_boost_rounds": {"args": {"n": 10}},
    "bounds.agnostic_compression_bound": {
        "args": {"opt": 0.1, "d": 2, "m": 1000, "delta": 0.1, "n_kept": 900, "c": 1.0}
    },
    "bounds.proper_error": {"args": {"d": 4, "eps": 1 / 64, "m": 10}},
    "bounds.proper_tail": {"args": {"d": 4, "eps": 1 / 64, "m": 10}},
    "bounds.proper_least_m": {"args": {"d": 4, "eps": 1 / 64}},
    "bounds.proper_limit": {"args": {"d": 4, "eps": 1 / 64}},
    "bounds.proper_fails_below": {"args": {"d": 4, "eps": 1 / 64}},
    "bounds.blind_heavy_error": {"args": {"eps": 1 / 64, "m": 10}},
    "bounds.blind_error": {"args": {"d": 4, "eps": 1 / 64, "m": 10}},
    "bounds.birds_error": {"args": {"K": 4, "n": 10}},
    "bounds.agnostic_excess": {"args": {"d": 4, "gamma": 0.1, "m": 10}},
}

INSTANCES = {
    "instances.Instance": {"make": lambda: instances.example_vco0(2)},
    "instances.example_regimes": {"args": {}},
    "instances.example_vco0": {"args": {"d": 2}},
    "instances.da_lower_bound": {
        "args": {"d": 2, "eps": 1 / 64, "random_state": 0},
        "bad": {"eps 1": lambda: instances.da_lower_bound(2, 1.0)},
    },
    "instances.eta_family": {"args": {"d": 2, "eta": 0.1, "random_state": 0}},
    "instances.circle_rotations": {"args": {}},
    "instances.da_helps": {"args": {"d": 5, "eps": 1 / 64, "random_state": 0}},
    "instances.background_birds": {"args": {"K": 3, "random_state": 0}},
    "instances.rotated_images": {
        "args": {"n": 2, "k": 2},
        "bad": {"odd": lambda: instances.rotated_images(3, 1, constrained=True)},
    },
    "instances.supplement": {"args": {"problem": BIRDS.problem}},
    "instances.agnostic_lower_bound": {"args": {"d": 2, "gamma": 0.1, "M": 5, "random_state": 0}},
    "instances.indicator_blowup": {"args": {"d": 2}},
    "instances.halfspaces_c4": {"args": {"K": 3, "random_state": 0}},
    "instances.nonmonotone_eta": {"args": {"k": 2, "p": 0.1}},
    "instances.nongroup_funnel": {"args": {"n": 3}},
}

FIVE = FiniteClass.thresholds(range(5))
SMALL_GRAPH = lab.OneInclusionGraph(FIVE)
LAB = {
    "OneInclusionGraph": {
        "make": lambda: lab.OneInclusionGraph(FIVE),
        "run": lambda graph: (graph.edges, graph.orient().head, graph.predict(0, [0, 0, 0, 1, 1])),
        "bad": {
            "no rows": lambda: lab.OneInclusionGraph(np.zeros((0, 2))),
            "equal keys": lambda: lab.OneInclusionGraph(FIVE, keys=[0, 0, 1, 2, 3]),
            "wrong number of labels": lambda: SMALL_GRAPH.predict(0, [0, 1]),
        },
    },
    "Orientation": {
        "make": lambda: lab.OneInclusionGraph(FIVE).orient(),
        "no_example": "returned by OneInclusionGraph.orient",
    },
    "FractionalOrientation": {
        "make": lambda: lab.OneInclusionGraph(FIVE).orient_fractional(),
        "no_example": "returned by OneInclusionGraph.orient_fractional",
    },
    "Prediction": {
        "make": lambda: SMALL_GRAPH.predict(0, [0, 0, 0, 1, 1]),
        "no_example": "returned by OneInclusionGraph.predict",
    },
    "peel_orientation": {
        "args": {"n_vertices": 3, "first": np.array([0, 1]), "second": np.array([1, 2])}
    },
    "orbit_ids": {
        "args": {"orbits": ["b", "a", "b"], "n_points": 3},
        "bad": {"wrong length": lambda: lab.orbit_ids([0, 1], 3)},
        "no_example": "shown by orbit_labels",
    },
    "orbit_labels": {
        "args": {"cls": FIVE, "orbits": [0, 0, 1, 1, 2]},
        "bad": {"wrong length": lambda: lab.orbit_labels(FIVE, [0, 1])},
    },
    "OrbitShattering": {
        "make": lambda: lab.vcao(FIVE, [0, 0, 1, 1, 2]),
        "no_example": "shown by vcao",
        "no_frame": "a certificate, not a table",
    },
}

CASES = {**LEARNERS, **WRAPPERS, **GROUPS, **MODEL, **BOUNDS, **INSTANCES, **LAB}
