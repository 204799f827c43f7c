"""What can go wrong between a person and the log, each with the status that a page answers."""

from __future__ import annotations

from counterplay.errors import CounterplayError, InvalidInputError


class StudioError(CounterplayError):
    """Base of the studio's errors; ``status`` is that of the HTTP answer."""

    status = 500
    exit_code = 2


class Conflict(StudioError):
    """The stream went on since the page was made; ``current`` is its last number."""

    status = 409

    def __init__(self, current: int) -> None:
        super().__init__("You already answered this in another window. Here is where you are now.")
        self.current = current


class KeyReuse(StudioError):
    """The key of a form was used before, with another content."""

    status = 422

    def __init__(self) -> None:
        super().__init__("That button was already used for another answer. Please reload.")


class Refused(StudioError, InvalidInputError):
    """A write that makes no sense here; nothing was stored. ``field`` names what was wrong."""

    status = 422

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Closed(StudioError):
    """The study takes no answers: it is a draft, paused or closed."""

    status = 409

    def __init__(self, state: str) -> None:
        super().__init__(f"This study is {state}: it takes no answers now.")
        self.state = state


class Missing(StudioError):
    """There is no such study, party, link or job."""

    status = 404


class Unavailable(StudioError):
    """The database cannot be used now; ``reason`` is for the operator, not for strangers."""

    status = 503

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class CannotStart(StudioError):
    """The data folder or database cannot be used; the sentence says what to do."""

    status = 503
