"""What an adaptive questionnaire can say so far: the recommendation, its rivals, and remarks.

Source: docs/theory/08-elicitation.md, "Proposition 8.L: the adaptive certificate is exact".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.seeds import derive_seed
from counterplay.elicitation.adaptive_state import AdaptiveState
from counterplay.elicitation.results import ElicitationResult

if TYPE_CHECKING:
    import pandas as pd


def standing(state: AdaptiveState, *, ended: bool) -> ElicitationResult:
    """Return the recommendation on the answers so far, with its certificate."""
    option, regret = state.recommendation()
    pool, room = state.pool, state.shared.showroom
    rng = np.random.default_rng(derive_seed(state.seed, "centre"))
    weights = state.consistent.likely(256, rng).mean(axis=0)
    vertices = state.consistent.vertices
    return ElicitationResult(
        item=pool.items[option],
        value=pool.values[option],
        regret_certificate=regret,
        n_queries=len(state.log),
        method="polytope",
        label=room.label(pool.items[option], pool.values[option]),
        objective_names=tuple(room.objective_name(j) for j in range(pool.oracle.k)),
        answers=tuple(state.log),
        weights=weights,
        weight_ranges=np.stack([vertices.min(axis=0), vertices.max(axis=0)], axis=1),
        single_values=pool.values[pool.best(np.eye(pool.oracle.k))],
        contradictions=tuple(state.contradictions),
        notes=_notes(state, regret, ended),
    )


def leaders(state: AdaptiveState, n: int) -> pd.DataFrame:
    """Return the ``n`` options with the best guaranteed worth, with exact bands."""
    import pandas as pd

    vertices, pool, room = state.consistent.vertices, state.pool, state.shared.showroom
    share = (vertices @ pool.values.T) / pool.best_values(vertices)[:, None]
    order = np.argsort(-share.min(axis=0), kind="stable")[:n]
    return pd.DataFrame(
        {
            "item": [room.label(pool.items[i], pool.values[i]) for i in order],
            "lowest": share.min(axis=0)[order],
            "highest": share.max(axis=0)[order],
        }
    )


def _notes(state: AdaptiveState, regret: float, ended: bool) -> tuple[str, ...]:
    notes = []
    suspects = state.consistent.suspects()
    if suspects:
        told = " or ".join(
            " and ".join(str(i + 1) for i in sorted(left_out)) for left_out in suspects
        )
        notes.append(f"not all answers can be right; most likely wrong: answer {told}")
    if state.inner is not None:
        notes.append("the guaranteed procedure took over after the adaptive questions")
    target = state.settings.target_regret
    if regret > target and ended:
        notes.append(
            f"stopped before the target of {100 * target:.3g} % was reached"
            if state.stopped
            else f"the target of {100 * target:.3g} % was not reached: the remaining differences "
            "are too small for the answers given"
        )
    if not state.consistent.exact:
        notes.append("some answers were left out of the certificate to keep it fast")
    error = getattr(getattr(state.shared.oracle, "mdp", None), "value_error", 0.0)
    if error:
        notes.append(
            f"values were estimated from samples and may be off by {error:.3g} in each "
            "objective; add twice this times the sum of the weights to the regret"
        )
    return tuple(notes)
