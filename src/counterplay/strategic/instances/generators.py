"""Generators of the hard populations: one function per theorem.

Source: Theorem 2.5, Theorem 2.7, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Literal

from counterplay.strategic.instances.populations import (
    BlindInstance,
    ConservativeInstance,
    NonBallInstance,
    ProperInstance,
    SparseWrong,
)


def proper_lb_instance(n: int, eps: float, target: int = 0) -> ProperInstance:
    """Return the population on which a single rule as output costs n / eps agents.

    With probability 3 n eps an agent is positive and sits on a random permutation of (0..n-1)/z;
    she reaches every basis vector but the one of her zero entry (and that one, too, if it is the
    target's). Every single wrong rule errs with probability 3 eps, any two rules together never.

    Parameters
    ----------
    n:
        Number of rules, at least 3.
    eps:
        With 3 n eps <= 1.
    target:
        The perfect rule.

    Examples
    --------
    >>> from counterplay.strategic.lab import UnionPredictor
    >>> population = proper_lb_instance(8, eps=0.01, target=0)
    >>> people = population.sample(20_000, random_state=0)
    >>> UnionPredictor(population.hypotheses, [0]).loss(people)
    0.0

    References
    ----------
    Theorem 2.5, see docs/theory/02-strategic-finite.md.
    """
    return ProperInstance(n=n, target=target, eps=eps)


def conservative_lb_instance(
    n: int, eps: float, target: int = 0, smoothing: float = 0.0
) -> ConservativeInstance:
    """Return the population on which reported features alone teach little.

    Agents sit on random permutations; positives reach everything, negatives (probability 6 eps)
    every basis vector closer than the target's.

    Parameters
    ----------
    n:
        Number of rules, at least 2.
    eps:
        With 6 eps <= 1.
    target:
        The perfect rule.
    smoothing:
        Share of negatives who just reach the perfect rule, used inside the proof only.

    Examples
    --------
    >>> conservative_lb_instance(16, eps=0.01, target=3).space_loss(16)  # doctest: +ELLIPSIS
    0.0380...

    References
    ----------
    Theorem 2.7, see docs/theory/02-strategic-finite.md.
    """
    return ConservativeInstance(n=n, target=target, eps=eps, smoothing=smoothing)


def blind_lb_instance(n: int, eps: float, target: int = 0, smoothing: float = 0.0) -> BlindInstance:
    """Return the population on which learning without feedback is a bandit problem.

    Star metric; a positive agent at the centre, and with probability 3 eps each a negative agent at
    every leaf but the target's.

    Parameters
    ----------
    n:
        Number of rules, at least 2.
    eps:
        With 3 (n - 1) eps <= 1.
    target:
        The perfect rule.
    smoothing:
        Share of negatives at the target's leaf, used inside the proof only.

    Examples
    --------
    >>> blind_lb_instance(8, eps=0.01, target=3).space_loss(8, size=1)
    0.02625

    References
    ----------
    Theorem 2.8, see docs/theory/02-strategic-finite.md.
    """
    return BlindInstance(n=n, target=target, eps=eps, smoothing=smoothing)


def nonball_lb_instance(
    n: int, eps: float, target: int = 0, smoothing: float = 0.0
) -> NonBallInstance:
    """Return the population that is hard in every setting because manipulation sets are arbitrary.

    All agents stand at point 0. Positives reach everything; a negative agent (probability 6 eps)
    reaches the rules that precede the target in a random order. Play it with ``tie="random"``: a
    fixed tie rule leaks the target (Theorem 2.9 and corollary 2.1).

    Parameters
    ----------
    n:
        Number of rules, at least 2.
    eps:
        With 6 eps <= 1.
    target:
        The perfect rule.
    smoothing:
        Share of negatives who reach exactly the perfect rule, used inside the proof only.

    Examples
    --------
    >>> nonball_lb_instance(8, eps=0.01, target=3).sample(5, random_state=0)
    Agents(5 agents with sets, 3 positive)

    References
    ----------
    Theorem 2.9, Theorem 2.9 and corollary 2.1, see docs/theory/02-strategic-finite.md.
    """
    return NonBallInstance(n=n, target=target, eps=eps, smoothing=smoothing)


def sparse_wrong(n: int, share: float, label: Literal[0, 1] = 0, target: int = 0) -> SparseWrong:
    """Return the population on which only a small random share of the rules errs on each agent.

    It separates right from wrong implementations of union sampling: with ``label=0`` single rules
    learn too slowly, with ``label=1`` a single rule as output is much worse than a pair
    (Proposition 2.E).

    Parameters
    ----------
    n:
        Number of rules, at least 3.
    share:
        ceil(share n) rules err on each agent, never the perfect one.
    label:
        Label of all agents: 0 (the nearest rules err) or 1 (the farthest).
    target:
        The perfect rule.

    Examples
    --------
    >>> population = sparse_wrong(100, share=0.05, label=0)
    >>> people = population.sample(4, random_state=0)
    >>> people.losses(population.hypotheses).sum(axis=1)
    array([5, 5, 5, 5])
    """
    return SparseWrong(n=n, target=target, share=share, label=label)
