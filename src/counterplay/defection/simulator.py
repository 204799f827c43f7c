"""Who leaves your federation, what it costs, and which rule keeps everybody: on your own data.

Source: docs/theory/05-defection.md, "From the protocol to a running federation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.draws import run_keys
from counterplay.core.progress import progress_bar
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_positive_int,
    check_real,
    check_size,
    shorten,
)
from counterplay.defection.models import objective_for
from counterplay.defection.rule_options import RulePlan, plan_rules
from counterplay.defection.simulation_result import SimulationResult
from counterplay.errors import InvalidInputError
from counterplay.federated.many import MOST_CELLS, Federation, TrainingRecord
from counterplay.federated.sites import Sites, believable_rows

if TYPE_CHECKING:
    from counterplay.tables import Labels

NUMBERS_AT_ONCE = 1 << 27
LONG_RUN = 200_000  # rounds x seeds x agents from which a progress bar is shown


@checked
class DefectionSimulator:
    """A federation of your sites, each of which leaves once the shared model is good enough for it.

    Use it before you start a real federation: it trains your model on your data under several
    server rules, with every site leaving for good the first time its own loss is at most its
    threshold, and tells who leaves when, what that costs, and which rule keeps them.

    Parameters
    ----------
    model:
        A torch module, ``"linear"``, ``"mlp"`` (one hidden layer of 32), or scikit-learn's
        ``SGDClassifier``, ``LogisticRegression`` or ``MLPClassifier``, which stand for the loss
        they minimise. Torch modules run in evaluation mode, without dropout. An ``Objective`` of
        :mod:`counterplay.federated` is trained as it is, for example in another precision.
    X:
        Rows: a frame of numbers, an array or images. Scale features yourself.
    y:
        Labels: numbers, booleans or texts, two classes or more.
    site:
        Site of every row, any names; rows with a negative number belong to nobody.
    threshold:
        Loss at which a site is satisfied: one number, one per site in sorted order, or a dict from
        site to number. 0 means never.
    test:
        What the population accuracy is measured on: ``(X, y)`` with the same columns, in any
        order, or the share of every site that is held out for it; 0 for none.
    loss:
        ``"cross_entropy"`` by default; a margin loss, or for torch modules a function.
    warm_start:
        Start from the torch module's own parameters instead of fresh ones.
    device:
        Where to compute, such as ``"cuda"``.
    random_state:
        Seed of the held-out rows.

    Guarantees
    ----------
    Sites evaluate the model on all their rows, leave at the same time within a round and never
    return; averages are over all sites, also those that left. For convex models, SafeStep and
    ADA-GD with full-batch gradients lose nobody (Propositions 5.C and 5.F).

    Examples
    --------
    >>> from counterplay import datasets
    >>> from counterplay.defection import heterogeneous_split
    >>> X, y = datasets.load("digits", return_X_y=True)
    >>> site = heterogeneous_split(X, y, 10, own_fraction=0.9, random_state=0).agent_of_row
    >>> simulator = DefectionSimulator("linear", X / 16.0, y, site, threshold=0.5)
    >>> rules = {"fedavg": dict(step_size=1.0), "safe_step": dict(step_size=1.0)}
    >>> result = simulator.compare(rules, rounds=150, random_state=0)
    >>> result.to_frame().set_index("rule")["defections"].to_dict()
    {'fedavg': 10, 'safe_step': 0}

    References
    ----------
    "From the protocol to a running federation", see docs/theory/05-defection.md.
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        site: Any,
        *,
        threshold: float | ArrayLike | Mapping[Any, float],
        test: tuple[Any, Any] | float = 0.2,
        loss: Any = None,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        from counterplay.tables import Labels, Table
        from counterplay.tables.labels import as_labels

        table = Table.of(X)
        rows = believable_rows(table)
        self.labels = Labels.of(y, rows=len(table))
        self.classes, codes = as_labels(self.labels.classes), self.labels.codes
        if len(self.classes) < 2:
            raise InvalidInputError("y has one class only; there is nothing to learn")
        self.sites, owner = check_sites(site, len(rows))
        self.eps = check_thresholds(threshold, self.sites)
        held_out = np.zeros(len(rows), dtype=bool)
        if not isinstance(test, tuple) and check_real(test, "test", low=0.0, high=0.9) > 0:
            held_out = _hold_out(owner, test, generator(random_state))
        self.objective = objective_for(
            model,
            features=int(np.prod(rows.shape[1:])),
            classes=len(self.classes),
            rows=int((~held_out).sum()),
            loss=loss,
            device=device,
            warm_start=warm_start,
        )
        rows = self.objective.rows(rows)
        train_owner = np.where(held_out, -1, owner)
        self.data = Sites.from_agents(rows, codes, train_owner)
        self.test: tuple[NDArray[Any], NDArray[np.int64]] | None = None
        if isinstance(test, tuple):
            tried = Table.of(test[0], columns=table.names, what="test")
            codes = self._codes(Labels.of(test[1], rows=len(tried), what="the y of test"))
            self.test = (self.objective.rows(believable_rows(tried)), codes)
        elif held_out.any():
            self.test = (rows[held_out], codes[held_out])

    def __repr__(self) -> str:
        return (
            f"DefectionSimulator({len(self.sites)} sites, {int(self.data.sizes.sum())} rows to "
            f"train on, {len(self.classes)} classes)"
        )

    def compare(
        self,
        rules: Mapping[str, Mapping[str, Any]] | Iterable[str] = ("fedavg", "safe_step"),
        *,
        rounds: int = 500,
        random_state: RandomState = None,
        seeds: int = 1,
        progress: bool | None = None,
    ) -> SimulationResult:
        """Train under every rule and compare what happened.

        Parameters
        ----------
        rules:
            Names (``"fedavg"``, ``"mwfed"``, ``"adagd"``, ``"safe_step"``), or a dict from name to
            options: ``step_size``, ``local_steps``, ``batch_size``, ``rescale_local_lr``, ``delta``
            (margin, by default a tenth of the smallest threshold) and those of the rule. A key may
            be any label if the options name the ``rule``.
        rounds:
            At most this many rounds.
        random_state:
            Seed of initial parameters and minibatches; the same for all rules.
        seeds:
            Number of repetitions, trained together.
        progress:
            Show a progress bar; by default for long runs only.
        """
        total = check_positive_int(rounds, "rounds")
        runs = check_positive_int(seeds, "seeds")
        plans = plan_rules(rules, self.eps, self.objective.convex)
        check_size(runs * (total + 1) * len(self.sites), MOST_CELLS, "seeds x rounds x sites")
        seed = int(generator(random_state).integers(2**31))
        work = total * runs * len(self.sites) * len(plans)
        shown = work > LONG_RUN if progress is None else progress
        records = {}
        with progress_bar(shown) as bar:
            for plan in plans:
                task = bar.add_task(plan.title, total=total)

                def tick(r: int, task: Any = task) -> None:
                    bar.update(task, completed=r)

                records[plan.label] = self._train(plan, total, runs, seed, tick)
                bar.update(task, completed=total)
        return SimulationResult(
            records=records,
            plans=tuple(plans),
            sites=tuple(self.sites.tolist()),
            eps=self.eps,
            measured=self.test is not None,
        )

    def _train(
        self, plan: RulePlan, rounds: int, runs: int, seed: int, tick: Any
    ) -> TrainingRecord:
        """Train all seeds of one rule, in as few batches as memory allows."""
        keys = run_keys(seed, runs)
        at_once = max(1, NUMBERS_AT_ONCE // max(1, int(self.data.X.size)))
        federation = Federation(
            self.objective,
            self.data,
            eps=self.eps,
            test=self.test,
            evaluate_every=max(1, rounds // 100),
        )
        parts = [
            federation.train(
                plan.rule,
                keys[first : first + at_once],
                step_size=plan.step_size,
                rounds=rounds,
                work=plan.work,
                tick=tick,
            )
            for first in range(0, runs, at_once)
        ]
        return parts[0] if len(parts) == 1 else TrainingRecord.joined(parts)

    def _codes(self, labels: Labels) -> NDArray[np.int64]:
        """Return class numbers of other labels."""
        place = {label: code for code, label in enumerate(self.labels.classes)}
        unknown = [label for label in labels.classes if label not in place]
        if unknown:
            raise InvalidInputError(f"label {shorten(unknown[0], 60)} of test does not occur in y")
        return np.array([place[label] for label in labels.classes])[labels.codes]


def check_sites(site: Any, rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted names of the sites and the site number of every row, -1 for nobody."""
    from counterplay.tables.labels import as_labels
    from counterplay.tables.table import check_groups

    names = check_groups(site, rows, "site").tolist()
    present = {name for name in names if isinstance(name, str) or name >= 0}
    if not present:
        raise InvalidInputError("no row belongs to a site")
    sites = sorted(present, key=lambda name: (isinstance(name, str), name))
    place = {name: m for m, name in enumerate(sites)}
    owner = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    return as_labels(sites), owner


def check_thresholds(threshold: Any, sites: NDArray[Any]) -> FloatArray:
    """Return one threshold per site."""
    if isinstance(threshold, Mapping):
        missing = [s for s in sites.tolist() if s not in threshold]
        if missing:
            raise InvalidInputError(f"threshold has no entry for site {shorten(missing[0], 60)}")
        threshold = [threshold[s] for s in sites.tolist()]
    eps = check_float_array(threshold, "threshold")
    if eps.ndim > 1 or (eps.ndim == 1 and len(eps) != len(sites)):
        raise InvalidInputError(
            f"threshold must be one number or one per site ({len(sites)}), got shape {eps.shape}"
        )
    if (eps < 0).any():
        raise InvalidInputError(f"threshold must not be negative, got {eps.min():g}")
    return np.broadcast_to(eps, (len(sites),)).copy()


def _hold_out(
    owner: NDArray[np.int64], share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark a random share of every site's rows; every site keeps at least one row."""
    held_out = np.zeros(len(owner), dtype=bool)
    for m in range(int(owner.max()) + 1):
        rows = rng.permutation(np.flatnonzero(owner == m))
        held_out[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    return held_out
