"""Every preference that explains the answers when a few of them may be wrong.

With r wrong answers allowed, a preference is possible if it explains all but at most r answers. The
possible set is the union of the polytopes that leave r answers out, each kept exactly, so a
certificate over all of them holds even if any r answers are wrong.
Source: docs/theory/08-elicitation.md, "Proposition 8.M: wrong answers".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import FloatArray, check_int
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.consistent_set import ConsistentSet
from counterplay.errors import InvalidInputError

MAX_WRONG = 2


@dataclass(frozen=True, eq=False)
class _Member:
    """One polytope and the answers it leaves out."""

    left_out: frozenset[int]
    consistent: ConsistentSet


class TolerantSet:
    """Union of the consistent sets that leave out at most ``wrong_answers`` answers.

    Examples
    --------
    >>> possible = TolerantSet(2, wrong_answers=1)
    >>> possible.tell(0, [1.0, -1.0], "first"), possible.tell(1, [1.0, -1.0], "second")
    (True, True)
    >>> sorted(sorted(suspects) for suspects in possible.suspects())
    [[0], [1]]
    """

    def __init__(
        self, k: int, scale: float = 1.0, max_rays: int = 4000, wrong_answers: int = 0
    ) -> None:
        self.wrong_answers = check_int(wrong_answers, "wrong_answers", low=0, high=MAX_WRONG)
        self.k = k
        self.scale = scale
        self._max_rays = max_rays
        self._members = [_Member(frozenset(), ConsistentSet(k, scale, max_rays))]
        self._count = 0

    @property
    def vertices(self) -> FloatArray:
        """Weights of the vertices of all polytopes of the union."""
        parts = [member.consistent.vertices for member in self._largest()]
        return parts[0] if len(parts) == 1 else np.vstack(parts)

    @property
    def precisions(self) -> FloatArray:
        """Precision at each vertex."""
        return np.concatenate([member.consistent.precisions for member in self._largest()])

    @property
    def exact(self) -> bool:
        """Whether every polytope is kept exactly."""
        return all(member.consistent.exact for member in self._members)

    @property
    def free_of_errors(self) -> bool:
        """Whether some preference explains all answers."""
        return any(not member.left_out for member in self._members)

    def tell(self, number: int, difference: FloatArray, answer: Answer | str) -> bool:
        """Add answer ``number``; return False, and change nothing, if nothing would remain."""
        members: list[_Member] = []
        for member in self._members:
            told = member.consistent.copy()
            if told.tell(difference, answer):
                members.append(_Member(member.left_out, told))
            if len(member.left_out) < self.wrong_answers:
                members.append(_Member(member.left_out | {number}, member.consistent))
        if not members:
            return False
        self._members = members
        self._count += 1
        return True

    def reset(self, answers: Mapping[int, tuple[FloatArray, Answer]]) -> bool:
        """Replace all answers; return False, and change nothing, if nothing would remain."""
        fresh = TolerantSet(self.k, self.scale, self._max_rays, self.wrong_answers)
        for number, (difference, answer) in answers.items():
            if not fresh.tell(number, difference, answer):
                return False
        self._members, self._count = fresh._members, fresh._count
        return True

    def implied(self, difference: FloatArray) -> Answer | None:
        """Return the answer that all possible preferences give, or None if they differ."""
        answers = {member.consistent.implied(difference) for member in self._largest()}
        return answers.pop() if len(answers) == 1 else None

    def suspects(self) -> list[frozenset[int]]:
        """Return the smallest sets of answers of which one must be wrong; empty if all fit."""
        fewest = min(len(member.left_out) for member in self._members)
        return [m.left_out for m in self._members if len(m.left_out) == fewest and fewest > 0]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return weights spread over the set and their least precisions.

        Half of them explain all answers, where such preferences exist.
        """
        perfect = [member for member in self._members if not member.left_out]
        others = [member for member in self._largest() if member.left_out]
        if not others:
            return perfect[0].consistent.sample(n, rng)
        share = n // 2 if perfect else n
        parts = [member.consistent.sample(n - share, rng) for member in perfect]
        each = max(4, share // len(others))
        parts += [member.consistent.sample(each, rng) for member in others]
        weights, precisions = zip(*parts)
        return np.vstack(weights), np.concatenate(precisions)

    def people(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return members of a population who explain the answers; none where some may be wrong."""
        if self.wrong_answers:
            return np.zeros((0, self.k))
        return self._members[0].consistent.people(n, rng)

    def likely(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return weights that explain as many answers as possible."""
        fewest = min(len(member.left_out) for member in self._members)
        likely = [member for member in self._members if len(member.left_out) == fewest]
        each = max(4, n // len(likely))
        return np.vstack([member.consistent.sample(each, rng)[0] for member in likely])

    def _largest(self) -> list[_Member]:
        """The polytopes that leave out most: every other one is contained in one of them."""
        most = min(self.wrong_answers, self._count)
        largest = [member for member in self._members if len(member.left_out) == most]
        if not largest:  # pragma: no cover - members with fewer left out imply larger ones
            raise InvalidInputError("no preference is possible any more")
        return largest
