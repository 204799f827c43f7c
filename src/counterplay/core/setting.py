"""Settings: who sees what, and when.

A setting is two sets of facts: those revealed before the learner acts and those told afterwards.
The game does the hiding, not the learner: hidden facts are None.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from counterplay.core.validation import shorten
from counterplay.errors import InformationError, UnknownNameError


@dataclass(frozen=True)
class Setting:
    """Which facts a learner sees before it acts and which afterwards.

    Parameters
    ----------
    name:
        Plain name, such as ``"features_first"``.
    before:
        Facts revealed before the learner acts.
    after:
        Facts told after the other side has responded, in addition to those.

    Examples
    --------
    >>> first = Setting("features_first", frozenset({"x"}), frozenset({"report"}))
    >>> after = Setting("features_after", frozenset(), frozenset({"x", "report"}))
    >>> first.offers(after), after.offers(first)
    (True, False)
    """

    name: str
    before: frozenset[str]
    after: frozenset[str]

    def __str__(self) -> str:
        return self.name

    def offers(self, needed: Setting) -> bool:
        """Whether a learner made for ``needed`` gets all it needs here."""
        later = self.before | self.after
        return needed.before <= self.before and needed.after <= later

    def require(self, needed: Setting, learner: str) -> None:
        """Raise :class:`InformationError` if this setting tells less than ``needed``."""
        if not self.offers(needed):
            raise InformationError(
                f"{learner} needs the setting {needed.name!r} but is run in {self.name!r}, which "
                "reveals less; choose a learner for that setting or reveal more"
            )


def find_setting(value: Setting | str, known: Iterable[Setting]) -> Setting:
    """Return ``value`` itself, or the setting of that name among ``known``."""
    if isinstance(value, Setting):
        return value
    options = {setting.name: setting for setting in known}
    if not isinstance(value, str) or value not in options:
        name = value if isinstance(value, str) else shorten(value)
        raise UnknownNameError.among("setting", name[:80], options)
    return options[value]
