"""How far could a party defect unnoticed? Training runs with one defector, all in one batch.

The models are objectives of ``counterplay.federated`` (any torch module, or plain layers in NumPy),
the rules its ``FedAvg`` and ``MWFed``. Needs NumPy only (and torch for torch models), so that it
runs on a bare GPU machine. Users find these names in ``counterplay.contribution.lab``.
"""

from counterplay.contribution.defectors.cohort import (
    Cohort,
    kept_points,
    mixture_parties,
    noisy_digits,
    pretraining_digits,
    split_indices,
)
from counterplay.contribution.defectors.curve import (
    DefectionCurve,
    default_defectors,
    defection_curve,
)
from counterplay.contribution.defectors.difficulty import (
    Difficulty,
    Trials,
    difficulty_scores,
    hard_and_easy,
)
from counterplay.contribution.defectors.pretraining import SearchResult, pretrain, random_search
from counterplay.contribution.defectors.rounds import (
    DigitsNetwork,
    PooledTraining,
    TrainingHistory,
)

__all__ = [
    "Cohort",
    "DefectionCurve",
    "Difficulty",
    "DigitsNetwork",
    "PooledTraining",
    "SearchResult",
    "TrainingHistory",
    "Trials",
    "default_defectors",
    "defection_curve",
    "difficulty_scores",
    "hard_and_easy",
    "kept_points",
    "mixture_parties",
    "noisy_digits",
    "pretrain",
    "pretraining_digits",
    "random_search",
    "split_indices",
]
