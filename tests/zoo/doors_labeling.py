"""Doors of counterplay.labeling."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from counterplay.labeling import Campaign, CommitteeStrategy, LabelAudit, plan_campaign
from counterplay.labeling.models import default_learner
from counterplay.tables import Labels, Table

from .animals import frame, labels, numbers


def _models(X: Any) -> list[Any]:
    """Six small trees, each fitted on other rows."""
    rows = np.random.default_rng(3).integers(0, 24, size=(6, 14))
    take = X.iloc.__getitem__ if hasattr(X, "iloc") else X.__getitem__
    return [
        DecisionTreeClassifier(max_depth=2, random_state=0).fit(take(r), labels()[r]) for r in rows
    ]


NAMED, UNNAMED = _models(frame()), _models(numbers())
ASK = CommitteeStrategy(DecisionTreeClassifier(max_depth=2), n_members=3).as_modal()


def _parties(X: Any) -> list[str]:
    n = X.shape[0] if hasattr(X, "shape") else len(X) if isinstance(X, list) else 24
    return ["north", "south"] * (n // 2) + ["north"] * (n % 2)


def _plan(pool: Any, owners: Any, hypotheses: Any) -> Any:
    plan = plan_campaign(pool, owners=owners, hypotheses=hypotheses)
    session = plan.start(seed=0)
    for _ in range(2):
        if (query := session.ask()) is not None:
            session.tell(plan.classes[plan.problem.H[0, query.point]])
    result = session.result()
    return plan.report, plan.problem.prior, result.confidence_if_realizable, plan.summary()


def _half(y: Any) -> Any:
    """The labels with every second one unknown."""
    if np.ndim(y) != 1:
        return y
    return [label if i % 2 else None for i, label in enumerate(y)]


def _next(X: Any, y: Any) -> Any:
    # histograms take missing values; what they cannot take is the estimator's sentence
    estimator = default_learner(Table.of(X))
    return CommitteeStrategy(estimator, n_members=2).query(X, _half(y), batch_size=3)


def _campaign(X: Any, y: Any) -> Any:
    given = Labels.of(y, rows=len(Table.of(X)))
    campaign = Campaign(X, owners=_parties(X), classes=["no", "yes"], max_error=0.3, random_state=0)
    for question in campaign.ask(100):
        campaign.tell(question, ["no", "yes"][int(given.codes[question.item]) % 2])
    copy = Campaign.from_log(campaign.log(), X)
    return campaign.result().score, copy.digest(), campaign.work().to_frame()["asked"]


def _audit(y: Any) -> Any:
    audit = LabelAudit(y, random_state=0)
    while (item := audit.ask()) is not None and audit.checked < 5:
        audit.tell(item, audit.labels[item])
    return audit.certificate.bound, audit.labels


DOORS = {
    "plan_campaign": lambda X, y: _plan(X, _parties(X), NAMED),
    "plan_campaign:fitted without names": lambda X, y: _plan(X, _parties(X), UNNAMED),
    "plan_campaign:stumps": lambda X, y: _plan(X, _parties(X), "stumps"),
    "plan_campaign:owners": lambda X, y: _plan(frame(), y, NAMED),
    "plan_campaign:labelings": lambda X, y: _plan([1.0, 2.0, 3.0], [0, 1, 0], X),
    "Campaign": _campaign,
    "Campaign:owners": lambda X, y: Campaign(
        frame(), owners=y, classes=["no", "yes"], max_error=0.3, random_state=0
    ).ask(3),
    "LabelAudit": lambda X, y: _audit(y),
    "CommitteeStrategy": _next,
    "CommitteeStrategy:modal": lambda X, y: ASK(
        SimpleNamespace(X_training=X, y_training=y), numbers(), n_instances=2
    ),
}
NOT_TABLES: dict[str, str] = {}
