"""A model and a table in, one page of findings out.

`audit` joins what the areas know into one answer for a person who has a fitted model and a table:
how good is it on rows it has not seen, what does gaming cost, who can plant rows, and what to do
next, each with the gain, its interval and what the number rests on.
"""

from __future__ import annotations
