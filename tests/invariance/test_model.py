"""Problems, settings and conflicting labels."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.invariance import groups, instances
from counterplay.invariance.lab import (
    ConflictingOrbitLabelsError,
    check_sample_invariant,
    classify_regime,
)


def test_settings_of_the_first_example() -> None:
    found = [classify_regime(c.problem, None, c.distribution) for c in instances.example_regimes()]
    assert [f.name for f in found] == ["invariant", "relaxed", "agnostic"]
    assert found[1].eta == 1.0
    assert found[2].best_error == 1.0
    for eta in (0.05, 0.2, 0.4):
        case = instances.eta_family(3, eta, random_state=0)
        setting = classify_regime(case.problem, None, case.distribution)
        assert setting.name == "relaxed"
        assert setting.eta == pytest.approx(eta)


@pytest.mark.claim("11.14")
def test_conflicting_labels_are_found() -> None:
    X = np.array([[1.0, 2.0], [5.0, 6.0], [2.0, 1.0]])
    with pytest.raises(ConflictingOrbitLabelsError) as caught:
        check_sample_invariant(groups.sequence_reversal(2), X, [0, 0, 1])
    assert caught.value.indices == (0, 2)
