"""Recompute what a session promised, from its events alone, with code of its own.

``counterplay verify FILE`` checks every hash, number and key of an export and then the stated
results: the certificate of an elicitation by linear programs over all weights that explain the
answers, the labels of a finite class by counting the labelings that are left, the certificates of
a campaign by a recount of its checks, the bound of a harm budget by a recount of every round, an
audit by the hash of its content. Nothing in this package comes from the areas, so that a mistake
there cannot hide itself.
Source: docs/theory/08-elicitation.md, 06-labeling.md, 09-tradeoff.md and 28-studio.md.
"""

from counterplay.verify.checks import Check
from counterplay.verify.export import Verification, broken_at, verify

__all__ = ["Check", "Verification", "broken_at", "verify"]
