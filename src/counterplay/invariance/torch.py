"""Networks that know a group: random images while loading, the mean over the orbit in the forward.

``InvariantModule`` is the same in training and inference, so the network learns as it will be used.
``TorchClassifier`` makes any module a scikit-learn classifier, so that all wrappers and the advisor
take it. Needs torch (extra ``federated``). Source: docs/theory/22-symmetry.md, "Ways to use a
symmetry".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from counterplay.core.arguments import check_parameters
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_choice, check_int, check_real, shorten
from counterplay.errors import InvalidInputError, MissingDependencyError
from counterplay.invariance.errors import InfiniteOrbitError, ShapeError
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.transformations import TransformationSet
from counterplay.invariance.vector_groups import MatrixGroup, SignFlipGroup
from counterplay.tables import Table
from counterplay.tables.labels import as_labels

try:
    import torch
    from torch import nn
except ImportError as error:  # pragma: no cover
    raise MissingDependencyError.for_extra("torch", "federated") from error

__all__ = ["AugmentCollate", "InvariantModule", "TorchClassifier"]


def linear_action(group: TransformationSet) -> tuple[str, NDArray[Any]]:
    """How a group moves rows of numbers: permutations, signs or matrices, one per element."""
    if isinstance(group, CoordinatePermutationGroup):
        return "take", group.perms
    if isinstance(group, SignFlipGroup):
        return "sign", group.signs.astype(np.float32)
    if isinstance(group, MatrixGroup):
        return "matrix", group.mats.astype(np.float32)
    if isinstance(group, SymmetricGroup) and group.shape is not None and group.axis == 1:
        return "set", np.zeros((0, math.prod(group.shape)), dtype=np.int64)
    raise InvalidInputError(
        f"{shorten(group, 80)} does not act on tensors; use permutations of coordinates, sign "
        "flips, matrices or set_permutations"
    )


class InvariantModule(nn.Module):
    """A module whose outputs are averaged over the orbit of its input, in training and inference.

    Parameters
    ----------
    module:
        Any module from a batch to a batch of logits.
    group:
        Permutations of coordinates, sign flips, matrices, or ``set_permutations`` (too large to
        list: ``max_images`` random members, drawn once, of the sorted set).
    how:
        "mean" of the logits, "logsumexp" (minus log of the number of images), or "canonical": the
        module sees one member of the orbit.
    max_images:
        Members that are used at most; needed for groups too large to list (default 8). A part of a
        listed group is not exactly invariant, so it is refused.
    microbatch:
        Images per forward at most in evaluation mode; changes memory, not the result. In training
        all images pass at once, so that batch normalisation sees them.
    channels_last:
        Whether images are (n, height, width, channels); default (n, channels, height, width).
    random_state:
        Seed of the members of groups too large to list.

    Examples
    --------
    >>> import torch
    >>> from counterplay.invariance import groups
    >>> net = InvariantModule(torch.nn.Linear(4, 3), groups.cyclic_shifts(4))
    >>> x = torch.randn(5, 4)
    >>> bool(torch.allclose(net(x), net(x.roll(1, dims=1)), atol=1e-6))
    True
    """

    def __init__(
        self,
        module: Any,
        group: TransformationSet,
        how: Literal["mean", "logsumexp", "canonical"] = "mean",
        max_images: int | None = None,
        microbatch: int | None = None,
        channels_last: bool = False,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.how = check_choice(how, "how", ("mean", "logsumexp", "canonical"))
        self.kind, table = linear_action(group)
        if (
            max_images is not None
            and check_int(max_images, "max_images", low=1) < group.order < math.inf
        ):
            raise InvalidInputError(
                "a part of a listed group is not invariant; leave max_images out"
            )
        self.microbatch = None if microbatch is None else check_int(microbatch, "microbatch", low=1)
        self.channels_last = bool(channels_last)
        self.set_shape: tuple[int, int] | None = None
        if isinstance(group, SymmetricGroup) and group.shape is not None:
            n, size = group.shape[0], math.prod(group.shape[1:])
            self.set_shape = (n, size)
            rng = generator(random_state)
            orders = np.stack([rng.permutation(n) for _ in range(max_images or 8)])
            table = (orders[:, :, None] * size + np.arange(size)).reshape(len(orders), -1)
        self.register_buffer("table", torch.as_tensor(np.array(table)))

    def forward(self, x: Any) -> Any:
        """Pooled outputs, the same for all members of an orbit."""
        flat, restore = self._flat(x)
        if self.set_shape is not None:
            flat = self._sorted(flat)
        if self.how == "canonical":
            return self._passed(restore(flat if self.set_shape else self._smallest(flat)))
        images = self._images(flat)
        out = self._passed(restore(images.reshape(-1, flat.shape[1])))
        out = out.reshape(len(images), len(x), *out.shape[1:])
        if self.how == "mean":
            return out.mean(dim=0)
        return torch.logsumexp(out, dim=0) - math.log(len(images))

    def _passed(self, x: Any) -> Any:
        if self.training or self.microbatch is None:
            return self.module(x)
        return torch.cat([self.module(part) for part in x.split(self.microbatch)])

    def _flat(self, x: Any) -> tuple[Any, Any]:
        """Rows of numbers as the group takes them, and the way back to the shape of the input."""
        table: Any = self.table
        width = int(table.shape[1])
        count = math.prod(x.shape[1:])
        first = x.ndim == 4 and not self.channels_last
        if first and count == width and x.shape[1] > 1:  # a group on (height, width, channels)
            moved = x.permute(0, 2, 3, 1)
            shape = moved.shape[1:]
            return moved.reshape(len(x), -1), lambda rows: rows.reshape(-1, *shape).permute(
                0, 3, 1, 2
            )
        if count == width:
            return x.reshape(len(x), -1), lambda rows: rows.reshape(-1, *x.shape[1:])
        raise ShapeError(
            f"the group moves {width} numbers, the input has items of shape {tuple(x.shape[1:])}"
        )

    def _images(self, flat: Any) -> Any:
        table: Any = self.table
        if self.kind == "sign":
            return table[:, None, :].to(flat.dtype) * flat
        if self.kind == "matrix":
            return torch.einsum("gij,nj->gni", table.to(flat.dtype), flat)
        return flat[:, table].transpose(0, 1)

    def _sorted(self, flat: Any) -> Any:
        """Sets with their elements in lexicographic order."""
        assert self.set_shape is not None
        blocks = flat.detach().cpu().numpy().reshape(len(flat), *self.set_shape)
        order = np.lexsort(np.moveaxis(blocks, -1, 0)[::-1], axis=-1)
        index = torch.as_tensor(order, device=flat.device)[..., None].expand(
            -1, -1, self.set_shape[1]
        )
        return flat.reshape(len(flat), *self.set_shape).gather(1, index).reshape(flat.shape)

    def _smallest(self, flat: Any) -> Any:
        """The lexicographically smallest image of every row."""
        images = self._images(flat)
        values = images.detach().cpu().numpy()
        best = np.zeros(len(flat), dtype=np.int64)
        rows = np.arange(len(flat))
        for g in range(1, len(values)):
            other, own = values[g], values[best, rows]
            place = (other != own).argmax(axis=1)  # 0 where they are equal
            best = np.where(other[rows, place] < own[rows, place], g, best)
        return images[torch.as_tensor(best), torch.as_tensor(rows)]


class AugmentCollate:
    """Collate items of a DataLoader, each under a random transformation.

    Parameters
    ----------
    group:
        A set of transformations that can be listed.
    copies:
        Images of every item in a batch.
    random_state:
        Seed of the transformations.

    Examples
    --------
    >>> import torch
    >>> from counterplay.invariance import groups
    >>> collate = AugmentCollate(groups.cyclic_shifts(3), copies=2, random_state=0)
    >>> x, y = collate([(torch.tensor([1.0, 2.0, 3.0]), 0)])
    >>> x.shape, y.tolist()
    (torch.Size([2, 3]), [0, 0])
    """

    def __init__(
        self, group: TransformationSet, copies: int = 1, random_state: RandomState = None
    ) -> None:
        if not math.isfinite(group.order):
            raise InfiniteOrbitError("AugmentCollate needs a group that can be listed")
        self.group = group
        self.copies = check_int(copies, "copies", low=1)
        self.rng = generator(random_state)

    def __call__(self, items: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Stacked images and labels."""
        x = torch.stack([torch.as_tensor(item[0]) for item in items for _ in range(self.copies)])
        y = torch.as_tensor([int(item[1]) for item in items for _ in range(self.copies)])
        rows = x.reshape(len(x), -1).numpy()
        picks = self.rng.integers(int(self.group.order), size=len(x))
        out = np.empty_like(rows)
        for g in np.unique(picks).tolist():
            out[picks == g] = self.group.exact_image(g, rows[picks == g])
        return torch.as_tensor(out).reshape(x.shape), y


class TorchClassifier(ClassifierMixin, BaseEstimator):
    """Any torch module as a scikit-learn classifier.

    Parameters
    ----------
    module:
        A module from a batch of rows (of the shape of X) to one logit per class; it is copied.
    epochs:
        Passes over the data.
    batch_size:
        Rows of a step.
    lr:
        Step size of Adam.
    device:
        Where to train, such as "cpu" or "cuda".
    random_state:
        Seed of the order of rows and of dropout; weights start as they are in ``module``.
    collate:
        Function from a list of (row, class number) to a batch, such as :class:`AugmentCollate`.

    Examples
    --------
    >>> import torch
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> _ = torch.manual_seed(0)
    >>> model = TorchClassifier(torch.nn.Linear(2, 2), epochs=30, lr=0.05, random_state=0)
    >>> round(model.fit(X, y).score(X, y), 1)
    1.0
    """

    def __init__(
        self,
        module: Any,
        *,
        epochs: int = 20,
        batch_size: int = 64,
        lr: float = 0.001,
        device: str = "cpu",
        random_state: RandomState = None,
        collate: Any = None,
    ) -> None:
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.device = device
        self.random_state = random_state
        self.collate = collate

    def fit(self, X: Any, y: Any) -> TorchClassifier:
        """Train a copy of the module with cross-entropy."""
        check_parameters(self)
        if not isinstance(self.module, nn.Module):
            raise InvalidInputError(
                f"module must be a torch module, got {shorten(self.module, 60)}"
            )
        table = Table.of(X, y)
        labels = table.labels
        assert labels is not None
        self.classes_ = as_labels(labels.classes)
        self.n_features_in_ = table.width
        rows = torch.as_tensor(self._numbers(table))
        step = check_real(self.lr, "lr", low=0.0, open_low=True)
        rng = generator(self.random_state)
        seed = int(rng.integers(2**31))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.module_ = copy.deepcopy(self.module).to(self.device).train()
            loader = torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(rows, torch.as_tensor(labels.codes)),
                batch_size=check_int(self.batch_size, "batch_size", low=1), shuffle=True,
                collate_fn=copy.deepcopy(self.collate),
                generator=torch.Generator().manual_seed(seed),
            )  # fmt: skip
            optimiser = torch.optim.Adam(self.module_.parameters(), lr=step)
            for _ in range(check_int(self.epochs, "epochs", low=1)):
                for batch, codes in loader:
                    self._step(optimiser, batch.to(self.device), codes.to(self.device))
        self.module_.eval()
        return self

    def _step(self, optimiser: Any, batch: Any, codes: Any) -> None:
        optimiser.zero_grad()
        out = self.module_(batch)
        if out.ndim != 2 or out.shape[1] < len(self.classes_):
            raise ShapeError(
                f"the module gives outputs of shape {tuple(out.shape)}; one logit for each of "
                f"{len(self.classes_)} classes is needed"
            )
        loss: Any = nn.functional.cross_entropy(out, codes)
        loss.backward()
        optimiser.step()

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities."""
        check_is_fitted(self)
        rows: Any = torch.as_tensor(self._numbers(Table.of(X)))
        with torch.no_grad():
            parts = [self.module_(part.to(self.device)).cpu() for part in rows.split(1024)]
        chances = torch.softmax(torch.cat(parts).double(), dim=1)[:, : len(self.classes_)].numpy()
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Class with the largest probability."""
        found: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found

    def _numbers(self, table: Table) -> NDArray[np.float32]:
        if table.width != self.n_features_in_:
            raise InvalidInputError(
                f"X has {table.width} features, but TorchClassifier is expecting "
                f"{self.n_features_in_} features as input"
            )
        shape = table.rows.shape[1:] if table.container == "arrays" else (table.width,)
        return table.numbers().astype(np.float32).reshape(len(table), *shape)
