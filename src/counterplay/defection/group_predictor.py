"""Use what one leaver tells about its kind: similar agents will leave soon.

Source: Appendix D.3, docs/theory/05-defection.md, "From the protocol to a running federation".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError


@dataclass(frozen=True)
class GroupPredictor:
    """Predict that the other members of a leaver's group leave next, without their losses.

    Use it when agents of one kind (same region, same device) have similar data and targets.

    Parameters
    ----------
    group : sequence of hashable, one per agent
        Group of every agent; None for agents without one.

    Guarantees
    ----------
    The server moves orthogonally to the gradients of everybody it predicts to leave, so a group
    that has lost one member keeps the others, as far as gradients allow.

    Examples
    --------
    Agent 0 has left, so agent 2 of the same group counts as leaving.

    >>> predictor = GroupPredictor(("north", "south", "north"))
    >>> predictor.leaving(np.array([1, 2]), defect_round=np.array([3, -1, -1])).tolist()
    [False, True]

    References
    ----------
    Appendix D.3; docs/theory/05-defection.md, "From the protocol to a running federation".
    """

    group: tuple[str | None, ...]

    def __init__(self, group: Sequence[str | None]) -> None:
        object.__setattr__(self, "group", tuple(group))
        if not self.group:
            raise InvalidInputError("group needs one entry per agent")

    def leaving(self, ids: IntArray, defect_round: IntArray) -> BoolArray:
        """Return which of the agents ``ids`` share a group with somebody who has left."""
        if len(defect_round) != len(self.group):
            raise InvalidInputError(
                f"group has {len(self.group)} entries for {len(defect_round)} agents"
            )
        gone = {g for g, r in zip(self.group, defect_round) if r >= 0 and g is not None}
        return np.array([self.group[int(i)] in gone for i in ids], dtype=bool)
