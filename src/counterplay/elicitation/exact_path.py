"""The exact polytope beside the reliable questionnaire: what follows if every answer is right.

Source: docs/theory/26-people.md, "Three stops".
"""

from __future__ import annotations

from collections.abc import Sequence

from counterplay.elicitation.choice_log import ChoiceAnswer
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.item_table import ItemTable
from counterplay.elicitation.oracles import PointSetOracle
from counterplay.elicitation.polytope_elicitor import PolytopeElicitor
from counterplay.elicitation.shared_bases import SharedBases
from counterplay.errors import ContradictionError


def exact_elicitor(items: ItemTable, target: float, seed: int) -> PolytopeElicitor:
    """Return the exact questionnaire that ``PolytopeElicitor`` would start with this seed."""
    elicitor = PolytopeElicitor(
        PointSetOracle(items.values), target_regret=target, fallback=False, max_contradictions=10**6
    )
    elicitor._open(SharedBases(elicitor.source), seed)
    return elicitor


def told_exact(elicitor: PolytopeElicitor, entry: ChoiceAnswer) -> None:
    """Pass an answer on to the exact questionnaire."""
    elicitor.ask()
    if entry.said != "choice":
        elicitor.tell(Answer.INDISTINGUISHABLE)
    else:
        elicitor.tell(Answer.FIRST if entry.order[0] == 0 else Answer.SECOND)


def if_all_right(items: ItemTable, answers: Sequence[ChoiceAnswer], item: int) -> float | None:
    """Return the largest regret of ``item`` over the preferences that explain every answer.

    None if no preference does, or if signs are unknown. "Same" and "cannot say" say nothing.
    """
    if items.ranged:
        return None
    exact = PolytopeElicitor(
        PointSetOracle(items.values), contradictions="raise", fallback=False, max_rays=1000
    )
    try:
        for entry in answers:
            for options, chosen in entry.choices():
                for other in range(len(options)):
                    if other != chosen:
                        exact.volunteer(options[chosen], options[other], Answer.FIRST)
    except ContradictionError:
        return None
    state = exact._state_or_new()
    worst = state.pool.worst_regrets(state.consistent)
    position = {row: i for i, row in enumerate(state.pool.items)}
    return max(0.0, float(worst[position[item]])) if item in position else None
