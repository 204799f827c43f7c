"""Small campaigns on real tables for the tests: fast learners, known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from counterplay.labeling import Campaign


def breast_cancer(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some standardised rows and their labels, 0 or 1."""
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(X))[:n]
    return StandardScaler().fit_transform(X)[rows], y[rows]


def digits(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some images of digits as standardised numbers, and the digits."""
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(X))[:n]
    return StandardScaler().fit_transform(X)[rows], y[rows]


def three_clinics(
    n: int = 180, seed: int = 0, **settings: Any
) -> tuple[Campaign, np.ndarray, np.ndarray]:
    """A campaign of three parties on breast cancer, with its table and answers."""
    X, y = breast_cancer(n, seed)
    settings = {"learner": GaussianNB(), "max_error": 0.1, "random_state": seed} | settings
    owners = np.arange(n) % 3
    return Campaign(X, owners=owners, classes=[0, 1], **settings), X, y


def finish(campaign: Campaign, y: Any, n: int = 1000) -> Campaign:
    """Answer everything."""
    while questions := campaign.ask(n):
        for question in questions:
            campaign.tell(question, y[question.item])
    return campaign


def regression() -> LogisticRegression:
    return LogisticRegression(max_iter=300)
