"""Settings of a partition: what cannot be is refused before any work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import check_parameters
from counterplay.core.validation import check_int, check_real, check_size
from counterplay.core.validation import check_positive_int as positive
from counterplay.errors import InvalidInputError
from counterplay.poisoning.units import Dealer, Unknown
from counterplay.tables.cells import is_missing, listed, shown
from counterplay.tables.encoding import check_key, encode_identity

if TYPE_CHECKING:
    from counterplay.poisoning.partition_training import PartitionTraining

_MOST_BLOCKS = 1_000_000


def check_settings(guard: PartitionTraining) -> None:
    """Refuse parameters that cannot be, before any work."""
    if isinstance(guard.random_state, np.random.RandomState | np.random.Generator):
        raise InvalidInputError(
            "random_state must be None or an integer: a certificate speaks about refits, and a "
            "generator gives every fit another seed"
        )
    check_parameters(guard)
    seed_of(guard)
    check_int(guard.min_lead, "min_lead", low=0)
    check_int(guard.budget, "budget", low=0, high=10**6)
    check_key(guard.key)
    count = 25 if guard.n_partitions == "auto" else positive(guard.n_partitions, "n_partitions")
    check_size(count * positive(guard.spread, "spread"), _MOST_BLOCKS, "blocks")
    if guard.rows_per_source is not None:
        positive(guard.rows_per_source, "rows_per_source")
    if guard.n_jobs is not None and abs(guard.n_jobs) > 10_000:
        raise InvalidInputError("n_jobs must be a number of workers, at most 10000")
    if guard.block_timeout is not None:
        check_real(guard.block_timeout, "block_timeout", low=0, open_low=True)
        if guard.backend == "threading":
            raise InvalidInputError(
                "block_timeout needs processes that can be ended; leave out backend='threading'"
            )
    if guard.n_jobs == 0:
        raise InvalidInputError("n_jobs must be None, a number of workers, or -1 for all; got 0")
    for what, slots in [("committee", guard.committee), *_split_items(guard.split)]:
        check_int(slots, what, low=1)
        if guard.n_partitions != "auto" and slots > count * guard.spread:
            raise InvalidInputError(
                f"{what} has {slots} slots, but there are only {count * guard.spread} blocks"
            )
    if hasattr(guard.estimator, "get_params"):
        for name, value in guard.estimator.get_params().items():
            if name.split("__")[-1] == "warm_start" and value is True:
                raise InvalidInputError(
                    f"{name}=True carries one fit into the next; set it to False"
                )


def checked_threshold(guard: PartitionTraining) -> tuple[int, float] | None:
    """Return the class that has a vote threshold and its share of all blocks; None without."""
    if guard.vote_threshold is None:
        return None
    given = dict(guard.vote_threshold)
    known = guard.classes_.tolist()
    share = next(iter(given.values()), None)
    good = (
        guard.classes is not None
        and len(known) == 2
        and len(given) == 1
        and next(iter(given)) in known
    )
    if not good:
        raise InvalidInputError(
            f"a vote threshold needs classes= with two classes, one of them in {shown(given)}; "
            f"got {listed(known) if guard.classes is not None else None}"
        )
    if share is None:
        return None
    if (
        isinstance(share, bool)
        or not isinstance(share, int | float | np.number)
        or not 0 < float(share) <= 1
    ):
        raise InvalidInputError(
            f"a vote threshold is a share above 0 and up to 1, got {shown(share)}"
        )
    if guard.aggregation == "runoff" or guard.min_lead > 0:
        raise InvalidInputError("a vote threshold goes with plurality and min_lead=0 only")
    return known.index(next(iter(given))), float(share)


def dealer_of(guard: PartitionTraining, n_blocks: int) -> Dealer:
    """Return what deals the rows to blocks."""
    split = {encode_identity(name): slots for name, slots in (guard.split or {}).items()}
    unknown: Unknown = guard.unknown_source
    return Dealer(n_blocks, guard.key, guard.committee, guard.rows_per_source, split, unknown)


def seed_of(guard: PartitionTraining) -> int:
    """Return the seed of the base models; None counts as 0."""
    return 0 if guard.random_state is None else check_int(guard.random_state, "random_state", low=0)


def _split_items(split: Mapping[Any, int] | None) -> list[tuple[str, int]]:
    if split is None:
        return []
    if any(is_missing(name) for name in split):
        raise InvalidInputError("split names a missing source; use unknown_source= for those")
    return [(f"split[{shown(name, 40)}]", slots) for name, slots in split.items()]
