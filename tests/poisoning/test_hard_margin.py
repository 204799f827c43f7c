"""HardMarginSVM is the maximum-margin separator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from counterplay.errors import NotRealizableError
from counterplay.poisoning import instances
from counterplay.poisoning.lab import HardMarginSVM


@pytest.mark.claim("10.38")
def test_hard_margin_svm_is_optimal() -> None:
    rng = np.random.default_rng(6)
    for n, m in ((2, 20), (5, 60), (30, 40), (3, 400)):
        w = rng.normal(size=n)
        X = rng.normal(size=(m, n))
        X = X[np.abs(X @ w) > 0.1 * np.linalg.norm(w)]
        y = (X @ w > 0).astype(int)
        svm = HardMarginSVM().fit(X, y)
        sign = 2 * y - 1
        assert (sign * svm.decision_function(X)).min() >= 1 - 1e-9
        assert svm.gap_ <= 1e-7  # duality: the hull distance equals the slab width
        assert svm.margin_ == pytest.approx(1 / np.linalg.norm(svm.coef_), rel=1e-7)
        reference = SVC(kernel="linear", C=1e8, tol=1e-9).fit(X, y)
        assert svm.margin_ == pytest.approx(1 / np.linalg.norm(reference.coef_), rel=1e-3)
    game = instances.convex_chain(3, random_state=1)
    poisoned = game.S + game.attacker.attack(game.target, game.S, game.X_test[0])
    assert np.array_equal(
        HardMarginSVM(tol=0.5).fit(poisoned.X, poisoned.y).predict(poisoned.X), poisoned.y
    )
    with pytest.raises(NotRealizableError):
        HardMarginSVM().fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    assert HardMarginSVM().fit([[0.0], [1.0]], [1, 1]).predict([[9.0]])[0] == 1
