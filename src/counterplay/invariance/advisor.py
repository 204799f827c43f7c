"""What should I do with my symmetry? One search over all ways, an honest number, the model.

Candidates are compared on folds that keep orbits together; losers are dropped early. The verdict is
about the symmetry within one model; the recommendation is over everything.
Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    IntArray,
    check_choice,
    check_int,
    check_open_fraction,
    check_real,
)
from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.invariance.advice import SymmetryAdvice
from counterplay.invariance.advisor_data import AdvisorData, read_data, sample_floor
from counterplay.invariance.advisor_families import CANDIDATES, FAMILIES, check_candidates
from counterplay.invariance.advisor_race import (
    Race,
    RowLoss,
    corrected_error,
    make_folds,
    row_loss,
)
from counterplay.invariance.advisor_verdict import approximate, candidate_row, within_one_model
from counterplay.invariance.linear_theory import theory_view
from counterplay.invariance.symmetry import check_symmetry
from counterplay.invariance.symmetry_check import SymmetryCheck
from counterplay.invariance.transformations import TrivialGroup, byte_keys, number_keys
from counterplay.tables.cells import shown

Future = Literal["natural", "transformed"] | float
_REPEATED = 0.05  # share of rows in repeated orbits from which on orbits are looked up
_SMALL = 500  # rows below which folds are drawn twice


@checked
def symmetry_advisor(
    estimator: Any,
    X: Any,
    y: Any,
    group: Any,
    *,
    future: Future = "natural",
    candidates: Any = "all",
    scoring: Any = "error",
    n_splits: Any = 5,
    race: float | None = 0.01,
    n_boot: int = 500,
    check: bool = True,
    max_rows: int = 20_000,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> SymmetryAdvice:
    """Advise what to do with a symmetry, and return the fitted model.

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier or regressor.
    X:
        Rows: a frame with named columns of numbers, an array, images with their axes, or a sparse
        matrix where the group permutes coordinates or flips signs.
    y:
        Labels in any coding, or numbers for a regressor.
    group:
        A group from :mod:`counterplay.invariance.groups`, or any set of maps.
    future:
        Which rows will come: "natural" (like X), "transformed" (random images of such), or the
        share of transformed ones.
    candidates:
        "all", or names of some of them.
    scoring:
        "error" (wrong labels; squared error for a regressor), "log_loss",
        "neg_mean_squared_error", or a function (labels, predictions) that gives a loss per row.
    n_splits:
        Folds that keep orbits together, or a splitter that takes groups.
    race:
        Level at which a candidate is dropped early; None fits all of them on all folds.
    n_boot:
        Draws of the bootstrap that corrects the error for the search.
    check:
        Whether to ask the labels, too (:func:`check_symmetry`).
    max_rows:
        Rows of the search at most (a random subset); the model is fitted on all.
    sample_weight:
        Weights of the rows.
    n_jobs:
        Processes; the answer does not depend on it.
    progress:
        Whether to show a progress bar.
    random_state:
        Seed.

    Returns
    -------
    SymmetryAdvice
        With ``model``, ``recommendation``, ``verdict``, ``error``, ``summary()``, ``plot()``.

    Examples
    --------
    Labels that depend on which half is larger do not survive a reversal; the advisor says so.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.invariance import groups
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = (X[:, 0] > X[:, 3]).astype(int)
    >>> advice = symmetry_advisor(
    ...     LogisticRegression(), X, y, groups.sequence_reversal(4), check=False, random_state=0)
    >>> advice.verdict
    'do not augment'

    References
    ----------
    "The race and the corrected error", see docs/theory/22-symmetry.md.
    """
    share = _share(future)
    names = check_candidates(candidates)
    level = None if race is None else check_open_fraction(race, "race")
    draws = check_int(n_boot, "n_boot", low=1, high=100_000)
    rng = generator(random_state)
    data = read_data(estimator, X, y, group, sample_weight, int(rng.integers(2**31)))
    loss, loss_name = row_loss(scoring, data.maker.regression)
    part = data.part(rng, check_int(max_rows, "max_rows", low=50))
    started, notes = _start(part, names, loss, loss_name, share, level)
    if len(part.y) < len(data.y):
        notes.append(
            f"The search used {len(part.y):,} of {len(data.y):,} rows; the model is fitted on all."
        )
    folds = _folds(part, n_splits, notes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        started.run(folds, n_jobs, progress)
        found = _checked(X, y, group, check and len(started.candidates) > 1, notes, rng)
        return _advise(data, started, draws, found, notes, future, loss_name, rng)


def _share(future: Any) -> float:
    if isinstance(future, str):
        check_choice(future, "future", ("natural", "transformed"))
        return 1.0 if future == "transformed" else 0.0
    return check_real(future, "future", low=0.0, high=1.0)


def _start(
    data: AdvisorData,
    names: tuple[str, ...],
    loss: RowLoss,
    loss_name: str,
    share: float,
    level: float | None,
) -> tuple[Race, list[str]]:
    """The race with the candidates that are possible here, and notes about the others."""
    maker = data.maker
    families, notes = maker.possible(len(data.y), data.rows, data.grouped)
    possible = [c for family in families for c in FAMILIES[family] if c in names]
    notes = [note for note in notes if any(c in names for c in FAMILIES[note.split(":")[0]])]
    if data.idle:
        possible, notes = (
            ["plain"],
            ["This transformation changes none of your rows; there is nothing to test or to gain."],
        )
    if loss_name == "log loss":
        if not hasattr(maker.estimator, "predict_proba"):
            raise InvalidInputError('scoring="log_loss" needs an estimator with predict_proba')
        kept = [c for c in possible if not c.startswith("kernel")]
        notes += ["kernels give no probabilities"] if len(kept) < len(possible) else []
        possible = kept
    soft = hasattr(maker.estimator, "predict_proba") or maker.regression
    if not soft and "vote" in possible:
        notes.append("The estimator gives no probabilities: votes are counted, not averaged.")
    order = tuple(c for c in CANDIDATES if c in possible)
    race = Race(maker, data.rows, data.y, data.weights, data.orbits, loss, share, order, level)
    return race, notes


def _folds(
    data: AdvisorData, n_splits: Any, notes: list[str]
) -> list[list[tuple[IntArray, IntArray]]]:
    if not hasattr(n_splits, "split"):
        n_splits = check_int(n_splits, "n_splits", low=2)
        fault = _few_orbits(data, n_splits)
        if fault and not isinstance(data.maker.group, TrivialGroup):
            raise InvalidInputError(fault)
        if fault:  # nothing to choose from: the model is fitted, its error is not known
            notes.append(f"The error is not estimated: {fault}.")
            return []
    repeats = 2 if len(data.y) < _SMALL else 1
    return make_folds(
        data.y, data.orbits, n_splits, repeats, data.maker.seed, data.maker.regression
    )


def _few_orbits(data: AdvisorData, n_splits: int) -> str:
    """What is missing for folds that keep orbits together; empty if nothing is."""
    parts = [("X", data.orbits)]
    if not data.maker.regression:
        parts = [(f"class {shown(c, 40)}", data.orbits[data.y == c]) for c in np.unique(data.y)]
    name, count = min(((name, len(np.unique(ids))) for name, ids in parts), key=lambda p: p[1])
    if count >= n_splits:
        return ""
    return f"{name} has {count} orbits; " + (
        f"use n_splits <= {count}" if count > 1 else "at least two are needed"
    )


def _checked(
    X: Any, y: Any, group: Any, wanted: bool, notes: list[str], rng: np.random.Generator
) -> SymmetryCheck | None:
    if not wanted:
        return None
    try:
        return check_symmetry(X, y, group, random_state=rng)
    except CounterplayError as error:
        notes.append(f"The labels were not asked: {error}")
        return None


def _advise(
    data: AdvisorData,
    race: Race,
    n_boot: int,
    check: SymmetryCheck | None,
    notes: list[str],
    future: Any,
    loss_name: str,
    rng: np.random.Generator,
) -> SymmetryAdvice:
    chosen = min(race.living, key=lambda name: (race.mean(name), CANDIDATES.index(name)))
    error, low, high = corrected_error(race, race.living, n_boot, rng)
    dropped = [name for name in race.candidates if name not in race.living]
    if dropped:
        notes.append(f"Dropped early, and not part of the correction: {'; '.join(dropped)}.")
    verdict, reason = within_one_model(race, chosen)
    model = data.maker.deployed(chosen, data.rows, data.y, data.weights)
    known: float | None = None
    if _looks_up(data, race):
        known = _known_error(data, race, chosen)
        model = data.maker.look_up(model, data.rows, data.y)
    rows = tuple(candidate_row(race, name) for name in race.candidates)
    naive = race.mean(chosen) if race.by_fold else np.nan
    floor = sample_floor(data)
    reason += approximate(check, future, floor)
    return SymmetryAdvice(
        model, chosen, verdict, reason, error, low, high, naive, known, floor, check,
        theory_view(data.maker.estimator, data.maker.group, data.maker.form.width), rows,
        tuple(notes), race.fits_used, race.fits_full, tuple(len(f) for f in race.by_fold),
        future if isinstance(future, str) else f"{float(future):.0%} transformed", loss_name,
    )  # fmt: skip


def _looks_up(data: AdvisorData, race: Race) -> bool:
    """Whether different rows of one orbit are frequent, and always have one label."""
    if data.maker.regression or not data.grouped or len(race.candidates) < 2:
        return False
    points = number_keys(byte_keys(data.rows))
    pairs = np.unique(np.column_stack([data.orbits, points]), axis=0)
    mixed = np.bincount(pairs[:, 0], minlength=int(data.orbits.max()) + 1) > 1
    return bool(mixed[data.orbits].mean() >= _REPEATED and sample_floor(data) == 0)


def _known_error(data: AdvisorData, race: Race, chosen: str) -> float | None:
    """Loss of the chosen model with the look-up, on folds that may know the orbit."""
    part = race
    if min(np.unique(part.y, return_counts=True)[1]) < 2:
        return None
    folds = StratifiedKFold(3, shuffle=True, random_state=data.maker.seed)
    total = 0.0
    for train, test in folds.split(np.zeros((len(part.y), 1)), part.y):
        model = data.maker.deployed(chosen, part.rows[train], part.y[train], None)
        model = data.maker.look_up(model, part.rows[train], part.y[train])
        total += float(race.loss(model, data.maker.form.give(part.rows[test]), part.y[test]).sum())
    return total / len(part.y)
