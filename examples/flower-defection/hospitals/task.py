"""The task: a small network, and the rows of one hospital. Replace this file by your own."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from counterplay.defection import heterogeneous_split


def make_module() -> torch.nn.Module:
    """The same start for everybody: the server sends its parameters to the hospitals."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    return torch.nn.Sequential(*layers)


@cache
def load_data(hospital: int, hospitals: int) -> tuple[np.ndarray, np.ndarray]:
    """A hospital's own rows: mostly its own kind of cases, 10% from everywhere."""
    X, y = read_digits()
    split = heterogeneous_split(X, y, n_agents=hospitals, own_fraction=0.9, random_state=0)
    mine = split.agent_of_row == hospital
    return X[mine] / 16.0, y[mine]


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits, from its file: Flower starts a process for every message, and
    importing scikit-learn would take longer than a round of training.
    """
    package = find_spec("sklearn").submodule_search_locations[0]
    rows = np.loadtxt(Path(package) / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(int)
