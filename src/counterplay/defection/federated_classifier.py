"""A scikit-learn classifier that is trained across sites which may leave.

Source: docs/theory/05-defection.md, "From the protocol to a running federation".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterplay.core.arguments import check_parameters
from counterplay.core.draws import run_keys
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_positive_int
from counterplay.defection.models import objective_for
from counterplay.defection.rule_options import plan_rules
from counterplay.defection.simulator import check_sites, check_thresholds
from counterplay.errors import InvalidInputError
from counterplay.federated.many import Federation
from counterplay.federated.sites import LARGEST, Sites
from counterplay.tables import Table
from counterplay.tables.cells import shown
from counterplay.tables.models import model_names


class FederatedClassifier(ClassifierMixin, BaseEstimator):
    """Train one classifier over the sites named by ``groups``, which leave once satisfied.

    Use it where a scikit-learn estimator is expected; :class:`DefectionSimulator` compares rules
    and shows what happened. Without groups there is one site and nobody to lose.

    Parameters
    ----------
    model:
        As in :class:`DefectionSimulator`; ``"linear"`` and ``"mlp"`` need no torch.
    rule:
        ``"safe_step"``, ``"adagd"``, ``"mwfed"`` or ``"fedavg"``.
    threshold:
        Loss at which a site is satisfied: a number, one per site in sorted order, or a dict.
    rounds:
        At most this many rounds.
    step_size:
        Step size; None takes the default of the rule, as in :meth:`DefectionSimulator.compare`.
    local_steps:
        Local steps per round.
    batch_size:
        Rows per local step; None for all.
    delta:
        Margin of the rule; None takes a tenth of the smallest threshold.
    device:
        ``"cpu"`` or ``"cuda"``.
    random_state:
        Seed of initial parameters and minibatches.

    Attributes
    ----------
    classes_ : labels.
    sites_ : names of the sites.
    defect_round_ : dict from site to the round in which it left, for those that left.
    record_ : the :class:`TrainingRecord` of the run, one seed.
    status_ : why training ended.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> site = np.array(["north", "south", "west"])[np.argsort(np.argsort(X[:, 0])) * 3 // len(X)]
    >>> model = FederatedClassifier(threshold=0.1, random_state=0)
    >>> model = model.fit(StandardScaler().fit_transform(X), y, groups=site)
    >>> model.defect_round_, round(model.score(StandardScaler().fit_transform(X), y), 3)
    ({}, 0.965)

    References
    ----------
    "From the protocol to a running federation", see docs/theory/05-defection.md.
    """

    def __init__(
        self,
        model: Any = "linear",
        *,
        rule: str = "safe_step",
        threshold: Any = 0.2,
        rounds: int = 500,
        step_size: float | None = None,
        local_steps: int = 1,
        batch_size: int | None = None,
        delta: float | None = None,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.model = model
        self.rule = rule
        self.threshold = threshold
        self.rounds = rounds
        self.step_size = step_size
        self.local_steps = local_steps
        self.batch_size = batch_size
        self.delta = delta
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> FederatedClassifier:
        """Train on the rows of all sites; ``X`` is a frame of numbers or an array."""
        check_parameters(self)
        rows, labels = self._read(X, y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError("y has one class only; there is nothing to learn")
        site = np.zeros(len(rows), dtype=np.int64) if groups is None else groups
        self.sites_, owner = check_sites(site, len(rows))
        eps = check_thresholds(self.threshold, self.sites_)
        self.objective_ = objective_for(
            self.model,
            features=rows.shape[1],
            classes=len(self.classes_),
            rows=len(rows),
            device=self.device,
        )
        options = {
            "step_size": self.step_size,
            "local_steps": self.local_steps,
            "batch_size": self.batch_size,
            "delta": self.delta,
        }
        given = {name: value for name, value in options.items() if value is not None}
        (plan,) = plan_rules({self.rule: given}, eps, self.objective_.convex)
        sites = Sites.from_agents(self.objective_.rows(rows), codes, owner)
        self.record_ = Federation(self.objective_, sites, eps=eps).train(
            plan.rule,
            run_keys(int(generator(self.random_state).integers(2**31)), 1),
            step_size=plan.step_size,
            rounds=check_positive_int(self.rounds, "rounds"),
            work=plan.work,
        )
        left = self.record_.defect_round[0].tolist()
        self.defect_round_ = {s: r for s, r in zip(self.sites_.tolist(), left) if r >= 0}
        self.status_ = self.record_.status[0]
        return self

    def _read(self, X: Any, *y: Any) -> Any:
        """Return rows, and labels where given, as scikit-learn checks them; columns by name."""
        fitted = not y
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            table = Table.of(X, columns=model_names(self) if fitted else None)
            names = None if table.names is None else list(table.names)
            X = pd.DataFrame(table.numbers(), columns=names, index=table.index)
        try:
            found = validate_data(self, X, *y, reset=not fitted, dtype=np.float64)
            if not fitted:
                check_classification_targets(found[1])
        except InvalidInputError:
            raise
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InvalidInputError(shown(error, 300)) from None
        rows = found if fitted else found[0]
        if np.abs(rows).max(initial=0.0) > LARGEST:
            raise InvalidInputError(f"X has numbers beyond {LARGEST:g}; scale the columns first")
        return found

    def _outputs(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        rows = self._read(X)
        backend = self.objective_.backend
        w = backend.put(self.record_.w)
        out = self.objective_.outputs(w, backend.put(self.objective_.rows(rows))[None])
        return np.asarray(backend.fetch(out)[0], dtype=np.float64)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return one score per class, or one number per row for two classes."""
        out = self._outputs(X)
        if len(self.classes_) > 2:
            return out
        return np.asarray(out[:, 0] if out.shape[1] == 1 else out[:, 1] - out[:, 0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of every row."""
        score = self.decision_function(X)
        best = (score > 0).astype(np.int64) if score.ndim == 1 else score.argmax(axis=1)
        return np.asarray(self.classes_[best])
