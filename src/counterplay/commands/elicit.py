"""``counterplay elicit``: learn a person's preferences by asking."""

from counterplay.elicitation.questionnaire import app

__all__ = ["app"]
