"""PartitionClassifier: a drop-in classifier by hash blocks and a vote, with certified predictions.

A planted row reaches one block and changes one vote. Source: docs/theory/10-poisoning.md, "Votes
with certificates".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.report import Report
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_int,
)
from counterplay.core.validation import check_positive_int as positive
from counterplay.core.votes import Vote, hash_blocks
from counterplay.errors import InvalidInputError
from counterplay.poisoning.certificates import (
    CertifiedAccuracy,
    finite_aggregation_radius,
    partition_radius,
    spread_parts,
)
from counterplay.poisoning.run_off import (
    RunOff,
    run_off,
    run_off_radius,
    run_off_spread_radius,
)
from counterplay.poisoning.voting import VotingClassifier, collect_scores, count_votes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Changes = Literal["inserted", "inserted_or_removed", "replaced"]


class PartitionClassifier(VotingClassifier):
    """Classifier whose predictions come with a certificate against planted training rows.

    Every row goes to the block given by a hash of its content, each block trains one model, the
    models vote. A planted row reaches one block, so a lead of 2t votes survives t planted rows,
    whatever they are: clean or not, duplicated or crafted.

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier, or a learner of :mod:`~counterplay.poisoning.lab`; default:
        one nearest neighbour. Blocks in which it cannot be
        fitted abstain (``n_failed_`` counts them), blocks with one class vote for that class.
    n_partitions:
        Number of blocks, or ``"auto"``: the best certified accuracy at ``budget`` on a held-out
        part (see :func:`choose_n_partitions`). More blocks certify more rows, but each model sees
        less data. A certificate is valid for the number of blocks as chosen; fix the number, or
        choose it on data you trust, if the attacker may know the rule.
    spread:
        1: deep partition aggregation. d > 1: finite aggregation with d times as many models, each
        trained on d of ``n_partitions * d`` parts; sharper certificates, d times the work.
    aggregation:
        ``"plurality"``: the class with most votes. ``"runoff"``: the two classes with most votes
        meet in a second round, in which every model chooses between them by its scores; certifies
        more rows when there are more than two classes (see
        :func:`counterplay.poisoning.run_off.run_off_radius`). Uses ``predict_proba`` or
        ``decision_function`` of the estimator; models without either only say what they voted for.
    min_lead:
        Abstain when the winner's lead is below this many votes. The certificate is for the label:
        planted rows may still turn a prediction into an abstention.
    budget:
        Planted rows to optimise for when ``n_partitions="auto"``.
    include_label:
        Hash the label, too. Without it a flipped label stays in its block.
    salt:
        Text that selects the hash function; keep it fixed and, if you can, secret.
    random_state:
        Seed of the base models. An integer; None means 0, since equal blocks must give equal
        models for the certificate.
    n_jobs:
        Workers of joblib for fitting and voting.

    Notes
    -----
    Guaranteed: ``certify(X)`` rows can be inserted or removed without changing the prediction
    (Levine and Feizi 2021; for ``spread`` > 1 Wang, Levine and Feizi 2022; for the run-off Rezaei
    et al. 2023), provided that fitting the base estimator is deterministic given its seed, and that
    every row of X was made from its own example alone: a scaler, a vocabulary or tf-idf fitted on
    all rows before the call carries one planted row into every block. Put such steps into the
    estimator. ``fit`` warns at some signs of them; to see no warning proves nothing. Blocks
    without rows abstain, and ``n_empty_`` counts them; no rule can fill every block on every input
    and still let a row reach one block only, since removing the only row of a block empties it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> guarded = PartitionClassifier(n_partitions=25).fit(X[:1200], y[:1200])
    >>> curve = guarded.certified_accuracy(X[1200:1400], y[1200:1400])
    >>> curve.at(0) > 0.85, curve.at(3) > 0.75
    (True, True)

    References
    ----------
    Levine and Feizi (2021), "Deep partition aggregation: provable defenses against general
    poisoning attacks". Rezaei, Banihashem, Chegini and Feizi (2023), "Run-off election".
    """

    def __init__(
        self,
        estimator: Any = None,
        n_partitions: int | Literal["auto"] = 25,
        *,
        spread: int = 1,
        aggregation: Literal["plurality", "runoff"] = "plurality",
        min_lead: int = 0,
        budget: int = 3,
        include_label: bool = False,
        salt: str = "",
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_partitions = n_partitions
        self.spread = spread
        self.aggregation = aggregation
        self.min_lead = min_lead
        self.budget = budget
        self.include_label = include_label
        self.salt = salt
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Hash the rows into blocks and fit one model per block."""
        points, labels = self._validated(X, y)
        check_int(self.min_lead, "min_lead", low=0)
        check_choice(self.aggregation, "aggregation", ("plurality", "runoff"))
        columns = points.reshape(len(points), -1).T[::-1]
        order = np.lexsort((labels, *columns))  # the row order must not matter
        points, labels = points[order], labels[order]
        self.n_partitions_ = self._count(points, labels)
        d = positive(self.spread, "spread")
        content = self.classes_[labels] if self.include_label else None
        parts = hash_blocks(points, self.n_partitions_ * d, y=content, salt=self.salt)
        self.partition_sizes_: IntArray = parts.sizes
        self.design_: IntArray | None = None
        blocks = list(parts)
        if d > 1:
            self.design_ = spread_parts(self.n_partitions_, d)
            users = self.design_[parts.block]  # models that see each row
            blocks = [np.flatnonzero((users == i).any(axis=1)) for i in range(len(parts))]
        self._fit_models(points, labels, blocks, self._seed())
        return self

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, np.random.RandomState | np.random.Generator):
            raise InvalidInputError(
                "random_state must be None or an integer: a certificate speaks about refits, and a "
                "generator gives every fit another seed"
            )
        return check_int(self.random_state, "random_state", low=0)

    def _count(self, X: NDArray[Any], y: NDArray[Any]) -> int:
        if self.n_partitions != "auto":
            return positive(self.n_partitions, "n_partitions")
        chosen: int = choose_n_partitions(
            self.estimator, X, y, budget=self.budget, salt=self.salt, n_jobs=self.n_jobs
        ).best
        return chosen

    def certify(self, X: ArrayLike, changes: Changes = "inserted") -> IntArray:
        """Return how many changed training rows each prediction provably survives.

        Parameters
        ----------
        X:
            Points to certify.
        changes:
            ``"inserted"`` or ``"inserted_or_removed"`` count rows of either kind (the radius is the
            same: each changes one block); ``"replaced"`` counts rows exchanged for others, each of
            which is a removal and an insertion.

        Returns
        -------
        Integers; -1 where the classifier abstains.
        """
        return self._certificate(X, changes)[0]

    def _certificate(self, X: ArrayLike, changes: Changes) -> tuple[IntArray, NDArray[Any]]:
        """Radii (-1: abstention) and predicted labels."""
        check_choice(changes, "changes", ("inserted", "inserted_or_removed", "replaced"))
        votes, k = self.votes(X), len(self.classes_)
        if self.aggregation == "runoff":
            scores = self._scores(X)
            election = run_off(votes, scores)
            lead, labels = election.lead, self.classes_[election.winner]
            if self.design_ is None:
                radius = run_off_radius(election)
            else:
                radius = run_off_spread_radius(votes, scores, self.design_, election)
        else:
            counts = count_votes(votes, k)
            vote = Vote(counts.argmax(axis=1).astype(np.int64), counts, self.classes_)
            lead, labels = vote.gap, vote.labels
            if self.design_ is None:
                radius = partition_radius(vote)
            else:
                radius = finite_aggregation_radius(votes, self.design_, k)
        if changes == "replaced":
            radius = radius // 2
        return np.where(lead < self.min_lead, -1, radius).astype(np.int64), labels

    def _scores(self, X: ArrayLike) -> FloatArray:
        points = self._points(X)
        return collect_scores(self.models_, points, self.classes_, self.n_jobs)

    def election(self, X: ArrayLike) -> RunOff:
        """Both rounds of the run-off, whatever ``aggregation`` is."""
        return run_off(self.votes(X), self._scores(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the winner of the vote, or of the run-off; ties go to the first class."""
        if self.aggregation == "runoff":
            winner = self.election(X).winner
            return np.asarray(self.classes_[winner])
        return super().predict(X)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Vote shares per class; in a run-off the finalists share theirs by the second round."""
        if self.aggregation == "runoff":
            return self.election(X).shares()
        return super().predict_proba(X)

    def vote_margin(self, X: ArrayLike) -> IntArray:
        """Votes for the winner minus votes for the strongest other class (of the final)."""
        if self.aggregation == "runoff":
            return self.election(X).lead
        return super().vote_margin(X)

    def abstains(self, X: ArrayLike) -> BoolArray:
        """Whether the lead of the winner is below ``min_lead``."""
        mask: BoolArray = self.vote_margin(X) < self.min_lead
        return mask

    def predict_or_abstain(self, X: ArrayLike) -> np.ma.MaskedArray[Any, Any]:
        """Return predictions as a masked array; abstentions are masked."""
        return np.ma.MaskedArray(self.predict(X), mask=self.abstains(X))

    def certified_accuracy(
        self, X: ArrayLike, y: ArrayLike, changes: Changes = "inserted"
    ) -> CertifiedAccuracy:
        """Return the curve of certified accuracy over the number of changed rows."""
        radius, labels = self._certificate(X, changes)
        right = labels == np.asarray(y)
        return CertifiedAccuracy(radius, np.asarray(right & (radius >= 0), dtype=np.bool_))


def choose_n_partitions(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: int = 3,
    candidates: tuple[int, ...] | None = None,
    salt: str = "",
    n_jobs: int | None = None,
) -> PartitionCurve:
    """Find the number of blocks with the best certified accuracy at a budget.

    A quarter of the rows, selected by their content, is held out. The rule looks at the data: run
    it on data you trust and fix its answer.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> curve = choose_n_partitions(None, X[:600], y[:600], budget=2, candidates=(5, 15, 45))
    >>> curve.best in (5, 15, 45)
    True
    """
    points, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    t = check_int(budget, "budget", low=0)
    held = hash_blocks(points, 4, salt=f"validation {salt}").block == 0
    if held.all() or not held.any():
        held = np.arange(len(labels)) % 4 == 0
    if len(labels) < 2:
        held[:] = False
    train, test = ~held, held if held.any() else ~held
    tried = candidates or _default_candidates(int(train.sum()), t)
    accuracy, certified = [], []
    for count in tried:
        model = PartitionClassifier(estimator, count, salt=salt, n_jobs=n_jobs)
        curve = model.fit(points[train], labels[train]).certified_accuracy(
            points[test], labels[test]
        )
        accuracy.append(curve.at(0))
        certified.append(curve.at(t))
    return PartitionCurve(np.array(tried), np.array(accuracy), np.array(certified), t)


def _default_candidates(rows: int, budget: int) -> tuple[int, ...]:
    least = 2 * budget + 1
    sizes = {least * factor for factor in (1, 2, 3, 5, 9, 15, 25)}
    fitting = sorted(size | 1 for size in sizes if size <= max(least, rows // 4))
    return tuple(dict.fromkeys(fitting))


@dataclass(frozen=True)
class PartitionCurve(Report):
    """Accuracy and certified accuracy for several numbers of blocks.

    Examples
    --------
    >>> PartitionCurve(np.array([5, 25]), np.array([0.9, 0.8]), np.array([0.1, 0.6]), 3).best
    25
    """

    n_partitions: IntArray
    accuracy: FloatArray
    certified: FloatArray
    budget: int

    def __post_init__(self) -> None:
        for name in ("n_partitions", "accuracy", "certified"):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def best(self) -> int:
        """Number of blocks with the best certified accuracy; ties: accuracy, then fewer."""
        order = np.lexsort((self.n_partitions, -self.accuracy, -self.certified))
        return int(self.n_partitions[order[0]])

    def summary(self) -> str:
        """One sentence with the choice."""
        i = int(np.flatnonzero(self.n_partitions == self.best)[0])
        return (
            f"{self.best} blocks: certified accuracy {self.certified[i]:.3f} against "
            f"{self.budget} planted rows, accuracy {self.accuracy[i]:.3f}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per number of blocks."""
        import pandas as pd

        return pd.DataFrame(
            {
                "n_partitions": self.n_partitions,
                "accuracy": self.accuracy,
                "certified": self.certified,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both curves over the number of blocks."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        axes.plot(self.n_partitions, self.accuracy, "o-", label="accuracy")
        name = f"certified against {self.budget} rows"
        axes.plot(self.n_partitions, self.certified, "s-", label=name)
        axes.set_xlabel("number of blocks")
        axes.set_ylabel("fraction of held-out rows")
        axes.legend()
        return axes
