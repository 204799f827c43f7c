"""What the learner is told, before and after it publishes a rule.

A setting says which facts are revealed before the rule is published and which afterwards. The game,
not the learner, does the hiding: hidden facts are None.

==================================  ========================  ==================================
setting                             before the rule           after the rule
==================================  ========================  ==================================
``"features_first"``                x                         x and the report
``"features_after"``                nothing                   x and the report
``"report_only"``                   nothing                   the report
``"blind"``                         nothing                   nothing
``"features_first, graph known"``   x and its neighbourhood   x, its neighbourhood, the report
``"features_after, graph known"``   nothing                   x, its neighbourhood, the report
``"report_only, graph known"``      nothing                   the report and its neighbourhood
==================================  ========================  ==================================

``x`` is what an agent is, the report what she shows after her move. The true label and the decision
are always told afterwards, an agent's ability never. On a manipulation graph the first four mean
that the graph is unknown: neighbourhoods are never shown.

Source: "Setting" in docs/theory/02-strategic-finite.md, "Who sees what" in
docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from counterplay.core.arguments import checked
from counterplay.core.setting import Setting, find_setting
from counterplay.core.validation import IntArray

_X, _REPORT, _GRAPH = frozenset({"x"}), frozenset({"report"}), frozenset({"neighbourhood"})
_NOTHING: frozenset[str] = frozenset()

FEATURES_FIRST = Setting("features_first", _X, _X | _REPORT)
"""The learner sees the true features before it chooses the rule, and the report afterwards."""
FEATURES_AFTER = Setting("features_after", _NOTHING, _X | _REPORT)
"""The learner sees the true features and the report after each round."""
REPORT_ONLY = Setting("report_only", _NOTHING, _REPORT)
"""The learner sees what was reported, never the true features."""
BLIND = Setting("blind", _NOTHING, _NOTHING)
"""The learner sees neither: only the label and its decision."""
FEATURES_FIRST_GRAPH = Setting("features_first, graph known", _X | _GRAPH, _X | _REPORT | _GRAPH)
"""As ``FEATURES_FIRST``, and the manipulation graph is known."""
FEATURES_AFTER_GRAPH = Setting("features_after, graph known", _NOTHING, _X | _REPORT | _GRAPH)
"""As ``FEATURES_AFTER``, and the manipulation graph is known."""
REPORT_ONLY_GRAPH = Setting("report_only, graph known", _NOTHING, _REPORT | _GRAPH)
"""As ``REPORT_ONLY``, and the manipulation graph is known."""

SETTINGS = (FEATURES_FIRST, FEATURES_AFTER, REPORT_ONLY, BLIND)
"""Settings of applicants with an unknown ability."""
GRAPH_SETTINGS = (
    FEATURES_FIRST_GRAPH,
    FEATURES_AFTER_GRAPH,
    REPORT_ONLY_GRAPH,
    FEATURES_FIRST,
    FEATURES_AFTER,
)
"""Settings of people on a manipulation graph; in the last two the graph is unknown."""


def applicant_setting(value: Setting | str) -> Setting:
    """Return the setting of this name, for applicants with an unknown ability.

    Examples
    --------
    >>> applicant_setting("features_after").offers(REPORT_ONLY)
    True
    >>> REPORT_ONLY.offers(FEATURES_AFTER)
    False
    """
    return find_setting(value, SETTINGS)


def graph_setting(value: Setting | str) -> Setting:
    """Return the setting of this name, for people on a manipulation graph.

    Examples
    --------
    >>> graph_setting("features_after, graph known").offers(FEATURES_AFTER)
    True
    """
    return find_setting(value, GRAPH_SETTINGS)


@checked
@dataclass(frozen=True)
class Feedback:
    """What the learner is told at the end of a round; hidden fields are None.

    Parameters
    ----------
    y:
        True label, 0 or 1.
    yhat:
        Decision on what the agent reported, 0 or 1.
    x:
        Features (or the node) before the move.
    report:
        Reported features (or node).
    neighbourhood:
        On a known graph: the closed neighbourhood of ``x``, or of the report where ``x`` is hidden.

    Examples
    --------
    >>> Feedback(y=0, yhat=1).mistake
    True
    """

    y: int
    yhat: int
    x: Any = None
    report: Any = None
    neighbourhood: Any = None

    @property
    def mistake(self) -> bool:
        """Whether the decision differs from the true label."""
        return self.y != self.yhat


@checked(arrays=True)
@dataclass(frozen=True)
class Seen:
    """What is revealed on a manipulation graph before the rule is published.

    Parameters
    ----------
    n:
        Number of nodes: the rule is one label per node.
    x:
        The agent's node; None if it is hidden.
    neighbourhood:
        Her closed neighbourhood; None if it is hidden.

    Examples
    --------
    >>> Seen(5).x is None
    True
    """

    n: int
    x: int | None = None
    neighbourhood: IntArray | None = None
