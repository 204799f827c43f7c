"""Small federations for the tests of sampled training."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.federated import CallableObjective, LocalParties


def huber(w: Any, rows: Any, labels: Any, weights: Any) -> tuple[float, Any]:
    """Mean Huber loss of ``rows @ w`` around 0, and its gradient."""
    z = rows @ w
    size = np.abs(z)
    values = np.where(size <= 1.0, z * z / 2.0, size - 0.5)
    return float(weights @ values), rows.T @ (weights * np.clip(z, -1.0, 1.0))


class HuberWorld:
    """Eight parties with four rows each in 36 dimensions: all can be served at once."""

    def __init__(self, seed: int, parties: int = 8, rows: int = 4, d: int = 36) -> None:
        rng = np.random.default_rng(seed)
        self.rows = rng.normal(size=(parties, rows, d))
        self.rows /= np.linalg.norm(self.rows, axis=2, keepdims=True)
        self.w0 = 2.0 * rng.normal(size=d)
        self.H = max(float(np.linalg.eigvalsh(a.T @ a / rows)[-1]) for a in self.rows)
        first = float(self.losses(self.w0).min())
        self.eps, self.delta = 0.1 * first, 0.05 * first

    def losses(self, w: Any) -> Any:
        even = np.full(self.rows.shape[1], 1.0 / self.rows.shape[1])
        return np.array([huber(w, a, None, even)[0] for a in self.rows])

    def parties(self) -> LocalParties:
        labels = np.zeros(self.rows.shape[1], dtype=int)
        data = {f"p{m}": (a, labels) for m, a in enumerate(self.rows)}
        objective = CallableObjective(self.rows.shape[2], huber, start=self.w0)
        return LocalParties(objective, data, threshold=self.eps)


class SampledOnly:
    """SafeStep as it was: it sees those who answered in this round, and believes them."""

    def __init__(self, rule: Any) -> None:
        self.rule, self.delta = rule, rule.delta

    def decide(self, reports: Any, step_size: float, state: Any) -> Any:
        return self.rule.decide(reports, step_size, state)
