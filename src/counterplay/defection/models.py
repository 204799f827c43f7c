"""What a user calls a model, as an objective of the engine: names, scikit-learn, torch.

Linear models of scikit-learn are turned into their own loss in closed form, penalty included; they
and the named models need no torch. Source: docs/theory/05-defection.md.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.federated.arrays import Backend, NumpyArrays, TorchArrays
from counterplay.federated.layers import LayeredObjective
from counterplay.federated.objective import Objective

KNOWN = (
    "a torch module, an engine Objective, 'linear', 'mlp', or scikit-learn's SGDClassifier, "
    "LogisticRegression or MLPClassifier"
)


def objective_for(
    model: Any,
    *,
    features: int,
    classes: int,
    rows: int,
    loss: Any = None,
    device: str = "cpu",
    warm_start: bool = False,
) -> Objective:
    """Return the objective that trains ``model`` on ``rows`` rows with these features and classes.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> objective_for(SGDClassifier(loss="hinge"), features=4, classes=3, rows=100).size
    15
    """
    if isinstance(model, Objective):
        return model
    if isinstance(model, str):
        return _named(model, features, classes, loss, _backend(device))
    if _is_torch_module(model):
        return _torch(model, classes, loss, device, warm_start)
    return _scikit_learn(model, features, classes, rows, _backend(device))


def _backend(device: str) -> Backend:
    """NumPy on the CPU; torch elsewhere."""
    return NumpyArrays("float64") if device == "cpu" else TorchArrays("float32", device)


def _named(model: str, features: int, classes: int, loss: Any, backend: Backend) -> Objective:
    name = "cross_entropy" if loss is None else loss
    if model == "linear":
        return LayeredObjective([features, classes], loss=name, backend=backend)
    if model == "mlp":
        return LayeredObjective([features, 32, classes], loss=name, backend=backend)
    raise UnknownNameError.among("model", model, ["linear", "mlp"])


def _is_torch_module(model: Any) -> bool:
    if find_spec("torch") is None or not hasattr(model, "state_dict"):
        return False
    import torch

    return isinstance(model, torch.nn.Module)


def _torch(model: Any, classes: int, loss: Any, device: str, warm_start: bool) -> Objective:
    import torch

    from counterplay.federated.modules import torch_objective

    name = "cross_entropy" if loss is None else loss
    parts = list(model) if type(model) is torch.nn.Sequential else []
    if parts and isinstance(parts[-1], torch.nn.Linear):
        outputs = parts[-1].out_features
        if outputs == 1 and classes == 2 and loss is None:
            name = "log_loss"
        if outputs < classes and (outputs, classes) != (1, 2):
            raise InvalidInputError(
                f"the model has {outputs} outputs, but y has {classes} classes; "
                f"give the last layer {classes} outputs"
            )
    return torch_objective(model, loss=name, device=device, warm_start=warm_start)


def _scikit_learn(
    model: Any, features: int, classes: int, rows: int, backend: Backend
) -> Objective:
    """Return the objective that the estimator minimises."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.neural_network import MLPClassifier

    outputs = 1 if classes == 2 else classes
    if isinstance(model, SGDClassifier):
        alpha = 0.0 if model.penalty is None else _ridge(model.penalty, model.alpha)
        bias, sizes = model.fit_intercept, [features, outputs]
        return LayeredObjective(sizes, bias=bias, loss=model.loss, penalty=alpha, backend=backend)
    if isinstance(model, LogisticRegression):
        strength = 0.0 if not np.isfinite(model.C) else 1.0 / (model.C * rows)
        bias, loss = model.fit_intercept, "log_loss" if outputs == 1 else "cross_entropy"
        sizes = [features, outputs]
        return LayeredObjective(sizes, bias=bias, loss=loss, penalty=strength, backend=backend)
    if isinstance(model, MLPClassifier):
        widths = np.atleast_1d(model.hidden_layer_sizes).tolist()
        activation = {"logistic": "sigmoid"}.get(model.activation, model.activation)
        sizes = [features, *widths, classes]
        return LayeredObjective(sizes, activation, penalty=model.alpha / rows, backend=backend)
    raise InvalidInputError(f"model must be {KNOWN}, got {type(model).__name__}")


def _ridge(penalty: str, alpha: float) -> float:
    if penalty != "l2":
        raise InvalidInputError(f"only the l2 penalty has a gradient everywhere, got {penalty!r}")
    return float(alpha)
