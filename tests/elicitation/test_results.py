"""What a result says about the answers it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import LinearPreferenceUser, PolytopeElicitor, answered_by

ITEMS = np.random.default_rng(0).random((30, 2))


@pytest.mark.claim("26.09")
def test_the_exact_certificate_says_its_condition() -> None:
    """It holds if every answer is right, or for the answers that were kept."""
    session = PolytopeElicitor(ITEMS, contradictions="set_aside", random_state=0)
    result = answered_by(session, LinearPreferenceUser([1.0, 0.5], eps=1e-6))
    assert "below the best possible if every answer is right" in result.summary()
    n = len(session.events)
    session.volunteer([0.2, 0.2], [0.9, 0.9], "first")
    told = session.result().summary()
    assert f"explains the answers that were kept ({n} of {n + 1})" in told
