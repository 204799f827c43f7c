"""Random streams: one seed in, independent reproducible generators out.

``random_state`` is None, an int or a ``numpy.random.Generator`` everywhere in the library.
Sub-streams come from ``SeedSequence`` keys, never from drawing seeds, so that the numbers do not
depend on the number of workers or on the order of execution.
"""

from __future__ import annotations

import hashlib
import json
import numbers
from typing import Any, TypeAlias

import numpy as np

from counterplay.core.validation import shorten
from counterplay.errors import InvalidInputError

_LONGEST_SEED = 1024  # bits

RandomState: TypeAlias = "int | np.random.Generator | None"


def generator(random_state: RandomState = None) -> np.random.Generator:
    """Return a generator for ``random_state``; a Generator is returned as it is.

    Examples
    --------
    >>> int(generator(0).integers(100))
    85
    """
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):  # what older scikit-learn code passes
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if isinstance(random_state, bool) or not isinstance(random_state, numbers.Integral):
        raise InvalidInputError(
            f"random_state must be None, an integer or a numpy Generator, "
            f"got {shorten(random_state)}"
        )
    if random_state < 0:
        raise InvalidInputError(f"random_state must not be negative, got {shorten(random_state)}")
    if int(random_state).bit_length() > _LONGEST_SEED:  # it must fit into messages and states
        raise InvalidInputError(f"random_state is too large, got {shorten(random_state)}")
    return np.random.default_rng(int(random_state))


def spawn(random_state: RandomState, n: int) -> list[np.random.Generator]:
    """Return ``n`` independent generators derived from ``random_state``."""
    return list(generator(random_state).spawn(n))


def derive_seed(*keys: Any) -> int:
    """Return a 63-bit seed that depends on the JSON-able ``keys`` only, on any machine.

    Examples
    --------
    >>> derive_seed("tradeoff/switch-tax", {"T": 1024}, 0) == derive_seed(
    ...     "tradeoff/switch-tax", {"T": 1024}, 0)
    True
    """
    text = json.dumps(keys, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
