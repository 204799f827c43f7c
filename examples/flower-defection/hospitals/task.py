"""The task: a small network, and the rows of one hospital. Replace this file by your own."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits

from counterplay.defection.split import heterogeneous_split


def make_module() -> torch.nn.Module:
    """The same start for everybody: the server sends its parameters to the hospitals."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    return torch.nn.Sequential(*layers)


@cache
def load_data(hospital: int, hospitals: int) -> tuple[np.ndarray, np.ndarray]:
    """A hospital's own rows: mostly its own kind of cases, 10% from everywhere."""
    X, y = load_digits(return_X_y=True)
    split = heterogeneous_split(X, y, n_agents=hospitals, own_fraction=0.9, random_state=0)
    mine = split.agent_of_row == hospital
    return X[mine] / 16.0, y[mine]
