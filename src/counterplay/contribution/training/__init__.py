"""Federated training with a defector: FedAvg, MW-FED and training alone, all runs in one batch.

Depends on NumPy only (and on torch for the torch networks), so that it runs on a bare GPU machine.
``MLP`` is pure NumPy; ``counterplay.contribution.training.torch_networks`` has ``TorchMLP`` and
``TorchCNN`` with ``device=``.
"""

from counterplay.contribution.training.cohort import (
    Cohort,
    kept_points,
    mixture_parties,
    noisy_digits,
    pretraining_digits,
    split_indices,
)
from counterplay.contribution.training.defection import (
    FRACTIONS,
    DefectionCurve,
    default_defectors,
    defection_curve,
)
from counterplay.contribution.training.difficulty import (
    Difficulty,
    Trials,
    difficulty_scores,
    hard_and_easy,
)
from counterplay.contribution.training.networks import MLP, Network
from counterplay.contribution.training.pretraining import SearchResult, pretrain, random_search
from counterplay.contribution.training.protocols import (
    FedAvg,
    IndividualTraining,
    MWFed,
    TrainingHistory,
)
from counterplay.core.draws import run_keys

__all__ = [
    "FRACTIONS",
    "MLP",
    "Cohort",
    "DefectionCurve",
    "Difficulty",
    "FedAvg",
    "IndividualTraining",
    "MWFed",
    "Network",
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
    "run_keys",
    "split_indices",
]
