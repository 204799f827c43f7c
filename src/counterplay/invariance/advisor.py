"""What should I do with my symmetry? One search over all ways, an honest number, the model.

Candidates are compared on folds that keep orbits together; losers are dropped early. The verdict is
about the symmetry within one model; the recommendation is over everything.
Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.multiclass import type_of_target

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_open_fraction,
    check_real,
    shorten,
)
from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.invariance.advice import SymmetryAdvice, VerdictName
from counterplay.invariance.advisor_families import (
    CANDIDATES,
    COPIES,
    FAMILIES,
    TWINS,
    Maker,
    check_candidates,
)
from counterplay.invariance.advisor_race import Race, corrected_error, make_folds
from counterplay.invariance.discovery import holm
from counterplay.invariance.groups import check_validity
from counterplay.invariance.images import Form, Rows, group_for, numbers_for, orbit_keys
from counterplay.invariance.linear_theory import invariance_floor, theory_view
from counterplay.invariance.random_images import moving_elements
from counterplay.invariance.regressors import check_targets
from counterplay.invariance.symmetry import check_symmetry
from counterplay.invariance.symmetry_check import SymmetryCheck
from counterplay.invariance.transformations import (
    TransformationSet,
    TrivialGroup,
    byte_keys,
    number_keys,
)
from counterplay.tables import Table
from counterplay.tables.cells import shown
from counterplay.tables.labels import as_labels

Future = Literal["natural", "transformed"] | float
_LEVEL = 0.05  # of the comparison within a model
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
    """What should I do with this symmetry, and give me the model.

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
    """
    share = _share(future)
    names = check_candidates(candidates)
    level = None if race is None else check_open_fraction(race, "race")
    draws = check_int(n_boot, "n_boot", low=1, high=100_000)
    rng = generator(random_state)
    data = _read(estimator, X, y, group, sample_weight, int(rng.integers(2**31)))
    loss, loss_name = _loss(scoring, data.maker.regression)
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


@dataclass(frozen=True)
class _Data:
    """Rows, labels, orbits and the maker of candidates."""

    rows: Rows
    y: NDArray[Any]
    weights: FloatArray | None
    orbits: IntArray
    maker: Maker
    grouped: bool  # the transformations are a group on these rows
    idle: bool  # no transformation moves any row

    def part(self, rng: np.random.Generator, most: int) -> _Data:
        """A random subset of the rows."""
        if len(self.y) <= most:
            return self
        pick = np.sort(rng.permutation(len(self.y))[:most])
        weights = None if self.weights is None else self.weights[pick]
        orbits = np.unique(self.orbits[pick], return_inverse=True)[1].reshape(-1)
        return _Data(self.rows[pick], self.y[pick], weights, orbits, self.maker, self.grouped,
                     self.idle)  # fmt: skip


def _read(estimator: Any, X: Any, y: Any, group: Any, sample_weight: Any, seed: int) -> _Data:
    methods = ("get_params", "fit", "predict")
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in methods):
        raise InvalidInputError(
            "estimator must be a scikit-learn classifier or regressor, got "
            f"{shorten(estimator, 80)}"
        )
    if y is None:
        raise InvalidInputError("y is None; one label per row is needed")
    table = Table.of(X, sample_weight=sample_weight)
    form = Form.of(table)
    transformations = group_for(group, form)
    maker = Maker(estimator, transformations, form.under(transformations), seed)
    targets = check_targets(y, len(table)) if maker.regression else _classes(Table.of(X, y))
    rows = numbers_for(table, transformations)
    if not maker.regression and len(np.unique(targets)) < 2:
        raise InvalidInputError("y has one class only; every transformation keeps it.")
    grouped = transformations.is_group and _is_group(transformations, rows)
    keys = orbit_keys(rows, transformations) if grouped else byte_keys(rows)
    return _Data(
        rows, targets, table.weights, number_keys(keys), maker, grouped,
        _idle(rows, transformations),
    )  # fmt: skip


def _classes(table: Table) -> NDArray[Any]:
    labels = table.labels
    assert labels is not None
    values: NDArray[Any] = as_labels(labels.classes)[labels.codes]
    if type_of_target(values) not in ("binary", "multiclass"):
        raise InvalidInputError(f"y must be class labels, got {type_of_target(values)} values")
    return values


def _is_group(group: TransformationSet, rows: Rows) -> bool:
    return True if group.proved_group else check_validity(group, rows).is_group


def _idle(rows: Rows, group: TransformationSet) -> bool:
    if not math.isfinite(group.order):
        return False
    some = rows[:200].toarray() if hasattr(rows, "toarray") else rows
    return not len(moving_elements(some, group))


def _share(future: Any) -> float:
    if isinstance(future, str):
        check_choice(future, "future", ("natural", "transformed"))
        return 1.0 if future == "transformed" else 0.0
    return check_real(future, "future", low=0.0, high=1.0)


@dataclass(frozen=True)
class _RowLoss:
    """Loss of every row; an object rather than a closure, so that processes can share it."""

    kind: str
    own: Callable[[Any, Any], Any] | None = None

    def __call__(self, model: Any, given: Any, y: Any) -> FloatArray:
        if self.kind == "log_loss":
            chances = np.asarray(model.predict_proba(given), dtype=np.float64)
            place = np.searchsorted(model.classes_, y)
            place = np.minimum(place, chances.shape[1] - 1)
            hit = np.where(model.classes_[place] == y, chances[np.arange(len(y)), place], 0.0)
            return np.asarray(-np.log(np.maximum(hit, 1e-15)))
        answers = np.asarray(model.predict(given))
        if self.own is not None:
            losses = np.asarray(self.own(y, answers), dtype=np.float64)
            if losses.shape != (len(y),) or not np.isfinite(losses).all():
                raise InvalidInputError(
                    f"scoring must give one finite loss per row, got shape {losses.shape}"
                )
            return losses
        if self.kind == "squared error":
            return np.asarray((answers - y) ** 2, dtype=np.float64)
        return np.asarray(answers != y, dtype=np.float64)


def _loss(scoring: Any, regression: bool) -> tuple[_RowLoss, str]:
    if callable(scoring):
        return _RowLoss("own", scoring), "loss"
    names = ("error", "neg_mean_squared_error") if regression else ("error", "log_loss")
    check_choice(scoring, "scoring", names)
    kind = "squared error" if regression else str(scoring)
    return _RowLoss(kind), kind.replace("_", " ")


def _start(
    data: _Data,
    names: tuple[str, ...],
    loss: _RowLoss,
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


def _folds(data: _Data, n_splits: Any, notes: list[str]) -> list[list[tuple[IntArray, IntArray]]]:
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


def _few_orbits(data: _Data, n_splits: int) -> str:
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
    data: _Data,
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
        notes.append(f"Dropped early, and not part of the correction: {', '.join(dropped)}.")
    verdict, reason = _verdict(race, chosen)
    model = data.maker.deployed(chosen, data.rows, data.y, data.weights)
    known: float | None = None
    if _looks_up(data, race):
        known = _known_error(data, race, chosen)
        model = data.maker.look_up(model, data.rows, data.y)
    rows = tuple(_row(race, name) for name in race.candidates)
    naive = race.mean(chosen) if race.by_fold else np.nan
    floor = _floor(data)
    reason += _approximate(check, future, floor)
    return SymmetryAdvice(
        model, chosen, verdict, reason, error, low, high, naive, known, floor, check,
        theory_view(data.maker.estimator, data.maker.group, data.maker.form.width), rows,
        tuple(notes), race.fits_used, race.fits_full, tuple(len(f) for f in race.by_fold),
        future if isinstance(future, str) else f"{float(future):.0%} transformed", loss_name,
    )  # fmt: skip


def _row(race: Race, name: str) -> tuple[str, float, float, bool, str, float]:
    twins = [twin for twin in TWINS.get(name, ()) if twin in race.candidates]
    if name in COPIES and "plain" in race.candidates:
        twins = ["plain"]
    worst = max(twins, key=lambda twin: race.p_value(name, twin), default="")
    p = race.p_value(name, worst) if worst else 1.0
    losses = race.losses[name]
    seen = float((~np.isnan(losses)).mean()) if losses.size else 0.0
    return name, race.mean(name), seen, name in race.living, worst, p


def _verdict(race: Race, chosen: str) -> tuple[VerdictName, str]:
    """Compare within one model: a symmetric candidate with the same model without the group."""
    tried = [
        c for c in race.candidates if c in TWINS and any(t in race.candidates for t in TWINS[c])
    ]
    models = {"base": [c for c in tried if "plain" in TWINS[c]], "features": ["features"],
              "kernel": ["kernel"]}  # fmt: skip
    best = {m: min((c for c in cs if c in tried), key=race.mean, default="")
            for m, cs in models.items()}  # fmt: skip
    kinds = [m for m, c in best.items() if c]
    p = [max(race.p_value(best[m], t) for t in TWINS[best[m]] if t in race.candidates)
         for m in kinds]  # fmt: skip
    adjusted = dict(zip(kinds, holm(np.array(p)))) if kinds else {}
    own = next((m for m, c in best.items() if c == chosen), "")
    setting = _setting(race)
    if own and adjusted.get(own, 1.0) <= _LEVEL:
        why = "it uses the orbit of the row, which augmentation cannot (Thm. 11.4)"
        return (
            "use invariant learner",
            f"{chosen} beats the same model without it: {why}. {setting}",
        )
    better, worse = _copies_against_plain(race)
    if better <= _LEVEL:
        return "augment", f"Copies lower the error of the same model (Thms. 11.1, 11.3). {setting}"
    symmetric = chosen in TWINS or chosen in COPIES
    if worse <= _LEVEL and not symmetric:
        return "do not augment", f"Copies raise the error of the same model (Thm. 11.5). {setting}"
    return "no difference", f"These data show no difference within one model. {setting}"


def _copies_against_plain(race: Race) -> tuple[float, float]:
    """P-values of "copies are better" and "copies are worse"; weights of copies are a choice."""
    tried = [c for c in COPIES if c in race.candidates]
    if not tried:
        return 1.0, 1.0
    better = min(1.0, len(tried) * min(race.p_value(c, "plain") for c in tried))
    return better, max(race.p_value("plain", c) for c in tried)


def _setting(race: Race) -> str:
    if len(race.training) < 2:
        return ""
    if race.training["augment"] <= 0.01:
        return "The model fits the augmented data: setting (i)."
    if race.training["plain"] <= 0.01:
        return "It fits the natural but not the augmented data: setting (ii), copies may hurt."
    return "The model fits neither natural nor augmented data: agnostic, setting (iii)."


def _approximate(check: SymmetryCheck | None, future: Any, floor: float | None) -> str:
    if check is None or check.eta_low <= 0 or future == "transformed":
        return ""
    text = (
        f" Your symmetry is approximate: at least {check.eta_low:.0%} of the testable rows change "
        "label"
    )
    if len(check.conflicts):
        top = check.conflicts.iloc[0]
        text += f" (most often {top['label']} -> {top['lands_among']})"
    text += ". Augmentation would plant wrong labels"
    if floor:
        text += f"; an exactly invariant model errs on at least {floor:.0%} of these rows"
    return text + "."


def _mass(data: _Data) -> FloatArray:
    codes = np.unique(data.y, return_inverse=True)[1].reshape(-1)
    table = np.zeros((int(data.orbits.max()) + 1, int(codes.max()) + 1))
    np.add.at(table, (data.orbits, codes), 1.0)
    return table


def _floor(data: _Data) -> float | None:
    """The floor on the rows at hand; None where no orbit repeats."""
    if data.maker.regression or not data.grouped or len(np.unique(data.orbits)) == len(data.y):
        return None
    return invariance_floor(_mass(data))


def _looks_up(data: _Data, race: Race) -> bool:
    """Whether different rows of one orbit are frequent, and always have one label."""
    if data.maker.regression or not data.grouped or len(race.candidates) < 2:
        return False
    points = number_keys(byte_keys(data.rows))
    pairs = np.unique(np.column_stack([data.orbits, points]), axis=0)
    mixed = np.bincount(pairs[:, 0], minlength=int(data.orbits.max()) + 1) > 1
    return bool(mixed[data.orbits].mean() >= _REPEATED and _floor(data) == 0)


def _known_error(data: _Data, race: Race, chosen: str) -> float | None:
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
