"""Does the order of the words matter? Texts with their words shuffled, compared by word pairs.

A bag of single words is trivially the same after a shuffle and would say nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import InfiniteOrbitError
from counterplay.invariance.images import Form
from counterplay.invariance.symmetry import Question, read_labels
from counterplay.invariance.transformations import TransformationSet, byte_keys, number_keys
from counterplay.tables import Table

_FEATURES = 1024


class TokenOrder(TransformationSet):
    """All orders of the words of texts; points are rows (number of a text, seed of its order).

    Seed 0 is the text as it is.
    """

    kind = "text"

    def __init__(self, texts: list[str]) -> None:
        self.tokens = [text.split() for text in texts]

    def __repr__(self) -> str:
        return f"TokenOrder({len(self.tokens)} texts)"

    @property
    def order(self) -> float:
        """Infinite as far as listing is concerned."""
        return math.inf

    def check_points(self, X: ArrayLike) -> NDArray[Any]:
        """Return points as they are."""
        return np.asarray(X, dtype=np.float64)

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Not possible: there are too many orders."""
        raise InfiniteOrbitError("all orders of words cannot be listed; use sample(X, n_images)")

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """The sorted words of each text."""
        return [tuple(sorted(self.tokens[int(i)])) for i in self.check_points(X)[:, 0]]

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """The same texts with other seeds."""
        points = self.check_points(X)
        rng = generator(random_state)
        out = np.repeat(points[None], n_images, axis=0)
        out[..., 1] = rng.integers(1, 2**31, size=out.shape[:2])
        return out

    def embed(self, X: FloatArray) -> FloatArray:
        """Counts of pairs of neighbouring words, hashed, each text of length one."""
        pairs = HashingVectorizer(
            analyzer=lambda words: [f"{a} {b}" for a, b in zip(words, words[1:])],
            n_features=_FEATURES, alternate_sign=False,
        )  # fmt: skip
        texts = [self._ordered(int(i), int(seed)) for i, seed in X.tolist()]
        return np.asarray(pairs.transform(texts).toarray(), dtype=np.float64)

    def _ordered(self, i: int, seed: int) -> list[str]:
        words = self.tokens[i]
        if seed == 0:
            return words
        return [words[k] for k in np.random.default_rng(seed).permutation(len(words))]


def token_order_question(X: Any, y: Any) -> tuple[str, Question]:
    """The question whether labels of texts depend on the order of words."""
    table = Table.of(X)
    if table.container != "texts":
        raise InvalidInputError('kind="text" takes a list of texts')
    codes, classes = read_labels(y, table, X)
    group = TokenOrder([str(text) for text in table.rows])
    rows: FloatArray = np.zeros((len(table), 2))
    rows[:, 0] = np.arange(len(table))
    clusters = number_keys(byte_keys(group.embed(rows)))
    question = Question(rows, codes, classes, group, Form(2), "text", group.embed, None, clusters)
    return "order of the words", question
