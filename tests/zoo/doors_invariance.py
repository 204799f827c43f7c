"""Doors of counterplay.invariance."""

from __future__ import annotations

from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

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
    augmented_sample,
    check_symmetry,
    find_symmetries,
    groups,
    symmetry_advisor,
)
from counterplay.invariance.lab import check_sample_invariant

STUMP = DecisionTreeRegressor(max_depth=2, random_state=0)
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
STREAM = SGDClassifier(loss="log_loss", random_state=0)
NUMBERS = SGDRegressor(random_state=0)
REVERSAL = groups.sequence_reversal


def _asked(model, X, y):
    """Labels, and probabilities where there are some."""
    model.fit(X, y)
    chances = model.predict_proba(X) if hasattr(model, "predict_proba") else None
    return model.predict(X), chances


def _numbers(model, X, y):
    return model.fit(X, y).predict(X)


def _width(X):
    return X.shape[1] if getattr(X, "ndim", 0) == 2 else 3


DOORS = {
    "AugmentedClassifier": lambda X, y: _asked(AugmentedClassifier(TREE, REVERSAL), X, y),
    "AugmentedClassifier:sets": lambda X, y: _asked(
        AugmentedClassifier(TREE, groups.set_permutations, n_images=3), X, y
    ),
    "AugmentedClassifier:blocks": lambda X, y: _asked(
        AugmentedClassifier(STREAM, REVERSAL, blocks="always", random_state=0), X, y
    ),
    "AugmentedClassifier:some": lambda X, y: _asked(
        AugmentedClassifier(TREE, REVERSAL, max_bytes=1, random_state=0), X, y
    ),
    "ErmInvClassifier": lambda X, y: _asked(
        ErmInvClassifier(TREE, REVERSAL, on_conflict="majority"), X, y
    ),
    "OrbitVoteClassifier": lambda X, y: _asked(OrbitVoteClassifier(TREE, groups.sign_flips), X, y),
    "CanonicalClassifier": lambda X, y: _asked(CanonicalClassifier(TREE, REVERSAL), X, y),
    "CanonicalClassifier:smallest": lambda X, y: _asked(
        CanonicalClassifier(TREE, groups.set_permutations), X, y
    ),
    "OrbitKernelClassifier": lambda X, y: _asked(OrbitKernelClassifier(group=REVERSAL), X, y),
    "symmetry_advisor": lambda X, y: symmetry_advisor(
        TREE,
        X,
        y,
        REVERSAL,
        n_splits=2,
        n_boot=20,
        candidates=["vote", "augment", "kernel"],
        random_state=0,
    ),
    "SymmetryClassifier": lambda X, y: _asked(
        SymmetryClassifier(TREE, REVERSAL, candidates=["vote", "smallest"], n_splits=2), X, y
    ),
    "SymmetryRegressor": lambda X, y: _numbers(
        SymmetryRegressor(STUMP, REVERSAL, candidates=["vote", "smallest"], n_splits=2), X, y
    ),
    "AugmentedRegressor": lambda X, y: _numbers(AugmentedRegressor(STUMP, REVERSAL), X, y),
    "AugmentedRegressor:blocks": lambda X, y: _numbers(
        AugmentedRegressor(NUMBERS, REVERSAL, blocks="always", random_state=0), X, y
    ),
    "OrbitMeanRegressor": lambda X, y: _numbers(OrbitMeanRegressor(STUMP, REVERSAL), X, y),
    "OrbitFeatures": lambda X, y: OrbitFeatures(REVERSAL, 4).fit(X).transform(X),
    "Canonicalizer": lambda X, y: Canonicalizer(REVERSAL).fit(X).transform(X),
    "check_symmetry": lambda X, y: check_symmetry(X, y, REVERSAL, n_repeats=1, random_state=0),
    "find_symmetries": lambda X, y: find_symmetries(X, y, kind="table", random_state=0),
    "find_symmetries:sequence": lambda X, y: find_symmetries(X, y, kind="sequence", random_state=0),
    "augmented_blocks": lambda X, y: list(augmented_blocks(X, y, REVERSAL, block_rows=16)),
    "augmented_sample": lambda X, y: augmented_sample(X, y, REVERSAL(_width(X))),
    "check_sample_invariant": lambda X, y: check_sample_invariant(
        REVERSAL(_width(X)), X, y, "majority"
    ),
    "check_validity": lambda X, y: groups.check_validity(REVERSAL(_width(X)), X, y),
    "canonical": lambda X, y: groups.set_permutations(_width(X)).canonical(X),
}
_POINTS = "learner of the theory: X are points of its domain, mostly numbers of a finite pool"
NOT_TABLES: dict[str, str] = dict.fromkeys(
    (
        "AdaptiveAgnostic", "AdaptiveRelaxed", "AgnosticCompression", "AlphaBoostCompression",
        "ConfidenceBooster", "DA", "ERM", "ErmInv", "KnownEta", "OneInclusionEta",
        "OneInclusionInvariant", "OneInclusionRelaxed", "OrbitOnlyOptimal",
    ),
    _POINTS,
)  # fmt: skip
NOT_TABLES["one_hot_boards"] = "takes boards of nine cells; the campaign tries it"
