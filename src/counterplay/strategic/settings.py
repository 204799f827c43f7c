"""What the learner is told, before and after it publishes a rule.

A setting is a pair: what is revealed before the rule is published and what afterwards. The protocol
runner, not the learner, does the hiding: hidden fields are None.
Source: spec 02 sections 1 and 2.2 (Protocol prot:interaction-finite).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from counterplay.errors import InformationError, UnknownNameError


class Setting(Enum):
    """Which facts about an agent the learner sees, and when.

    ==============  ==================  ========================
    setting         before the rule     after the rule
    ==============  ==================  ========================
    ``X_DELTA``     features x          reported features delta
    ``BOT_XDELTA``  nothing             x and delta
    ``BOT_DELTA``   nothing             delta
    ``BOT_BOT``     nothing             nothing
    ==============  ==================  ========================

    The true label y and the decision yhat are always told afterwards; the agent's radius never is.

    Examples
    --------
    >>> Setting.of("bot_xdelta").offers(Setting.BOT_DELTA)
    True
    >>> Setting.BOT_DELTA.offers(Setting.BOT_XDELTA)
    False

    References
    ----------
    Table tab:res, spec 02 section 1.
    """

    X_DELTA = "x_delta"
    BOT_XDELTA = "bot_xdelta"
    BOT_DELTA = "bot_delta"
    BOT_BOT = "bot_bot"

    @classmethod
    def of(cls, value: Setting | str) -> Setting:
        """Return the setting with this name, for example ``"x_delta"``."""
        if isinstance(value, Setting):
            return value
        for setting in cls:
            if setting.value == value:
                return setting
        raise UnknownNameError.among("setting", str(value), [setting.value for setting in cls])

    @property
    def before(self) -> frozenset[str]:
        """Names of the facts told before the rule is published."""
        return _REVEALED[self.value][0]

    @property
    def after(self) -> frozenset[str]:
        """Names of the facts told after the rule was published."""
        return _REVEALED[self.value][1]

    def offers(self, needed: Setting) -> bool:
        """Whether a learner made for ``needed`` gets all it needs here."""
        later = self.before | self.after
        return needed.before <= self.before and needed.after <= later


_REVEALED: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "x_delta": (frozenset({"x"}), frozenset({"x", "delta"})),
    "bot_xdelta": (frozenset(), frozenset({"x", "delta"})),
    "bot_delta": (frozenset(), frozenset({"delta"})),
    "bot_bot": (frozenset(), frozenset()),
}


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
        Features before the move.
    delta:
        Reported features.

    Examples
    --------
    >>> Feedback(y=0, yhat=1).mistake
    True

    References
    ----------
    Spec 02 section 2.2.
    """

    y: int
    yhat: int
    x: Any = None
    delta: Any = None

    @property
    def mistake(self) -> bool:
        """Whether the decision differs from the true label."""
        return self.y != self.yhat


def require(setting: Setting, needed: Setting, learner: str) -> None:
    """Raise :class:`InformationError` if ``setting`` tells less than ``needed``."""
    if not setting.offers(needed):
        raise InformationError(
            f"{learner} needs the setting {needed.value!r} but is run in {setting.value!r}, which "
            "reveals less; choose a learner for that setting or reveal more"
        )
