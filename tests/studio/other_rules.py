"""What a later version might do otherwise: other questions, other draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def another_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elicitations cannot ask at all; guards and campaigns choose otherwise than they did."""
    from counterplay.labeling import joint, solo
    from counterplay.studio.kinds.elicitation_engine import Engine
    from counterplay.tradeoff.live_weights import BanditWeights

    def asked(self: Any) -> None:
        raise AssertionError("replay asked the question rule")

    def chances(self: Any, allowed: Any) -> Any:
        weights = allowed * np.arange(1.0, len(allowed) + 1) ** 6
        return weights / weights.sum()

    margins = solo.smallest_margins
    monkeypatch.setattr(Engine, "question", asked)
    monkeypatch.setattr(Engine, "_choose", asked)
    monkeypatch.setattr(BanditWeights, "chances", chances)
    for module in (solo, joint):
        monkeypatch.setattr(
            module, "smallest_margins", lambda scores, n: margins(scores, len(scores))[::-1][:n]
        )
