"""A committee that is reweighted by every label and refitted member by member."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from counterplay.labeling import Campaign
from counterplay.labeling.committee_votes import ERROR, CommitteeModel, move_votes, vote_masses
from counterplay.labeling.models import RefittedModel
from counterplay.tables import Table


def test_masses_are_weighted_votes() -> None:
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 3, size=(40, 7)).astype(np.uint8)
    weights = rng.random(7)
    masses = np.ones((40, 3))
    vote_masses(votes, weights, masses)
    brute = np.stack([(weights * (votes == c)).sum(axis=1) for c in range(3)], axis=1)
    assert masses == pytest.approx(brute)
    fresh = rng.integers(0, 3, size=40).astype(np.uint8)
    move_votes(votes, 4, fresh, weights[4], masses)
    assert (votes[:, 4] == fresh).all()
    brute = np.stack([(weights * (votes == c)).sum(axis=1) for c in range(3)], axis=1)
    assert masses == pytest.approx(brute)


def test_members_lose_weight_for_contradicted_labels() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    model = CommitteeModel(Table.of(X), GaussianNB(), 2, 0, 6)
    y = (X[:, 0] > 0).astype(np.int64)
    rows = np.arange(20)
    model.fit(rows, y[:20])
    before = model.votes.copy()
    more = np.arange(24)
    scores = model.fit(more, y[:24])
    right = (before[20:24] == y[20:24, None]).sum(axis=0)
    gain, loss = np.log(1 - ERROR), np.log(ERROR)
    assert model.log_weights == pytest.approx(right * gain + (4 - right) * loss)
    assert scores.sum(axis=1) == pytest.approx(np.ones(80))
    changed = (model.votes != before).any(axis=0)
    assert changed.sum() <= 1  # one member was refitted


@pytest.mark.claim("24.21")
def test_a_label_costs_one_pass_and_one_refit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted, not seconds: one member's fit per batch, whatever their number."""
    fits = []
    original = RefittedModel.fit
    monkeypatch.setattr(
        RefittedModel, "fit", lambda self, *a: fits.append(len(a[0])) or original(self, *a)
    )
    rng = np.random.default_rng(2)
    n = 3000
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    campaign = Campaign(X, owners=["a"] * n, classes=[0, 1, 2], learner=GaussianNB(), committee=30,
                        batch=50, max_error=0.02, random_state=0)  # fmt: skip
    counts = []
    for _ in range(10):
        questions = campaign.ask(10_000)
        for q in questions:
            campaign.tell(q, int(y[q.item]))
        fits.clear()
        campaign.ask(50)
        counts.append(len(fits))
    # the whole committee when the number of answers has doubled, else one member
    assert set(counts) <= {0, 1, 30}
    assert counts.count(1) >= 2
    fits.clear()
    campaign.status()
    assert fits == []


def test_a_list_of_learners_is_a_committee() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] > 0).astype(int)
    campaign = Campaign(X, owners=np.arange(80) % 2, classes=[0, 1], max_error=0.1,
                        learner=[GaussianNB(), GaussianNB(var_smoothing=1e-3)],
                        scope="union", random_state=0)  # fmt: skip
    while questions := campaign.ask(100):
        for q in questions:
            campaign.tell(q, int(y[q.item]))
    assert (campaign.result().labels == y).mean() >= 0.9
