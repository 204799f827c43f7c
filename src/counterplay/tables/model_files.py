"""Models as bytes and back: the one reader of the library, which runs no code of the file.

The format is skops. Before anything is built, the types a file names are compared with those that
skops trusts and with the list below; a file with any other type is not opened. Trees, sparse
matrices and vocabularies are data for compiled code that checks no bounds, so their indices are
checked before the first prediction.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from counterplay.core.validation import BoolArray
from counterplay.errors import InvalidInputError, InvalidStateError, MissingDependencyError
from counterplay.tables.cells import shown

LARGEST_MODEL = 2 * 1024**3
LARGEST_RATIO = 200
_DEEPEST = 60
_WORDS = 8  # a set of categories of gradient boosting: 8 words of 32 bits

# Types beyond those of skops whose construction from a file calls nothing but themselves.
TRUSTED = {
    "numpy.dtype": "a plain description of numbers",
    "collections.OrderedDict": "a dictionary",
    "sklearn.compose._column_transformer.make_column_selector": "chooses columns by type or name",
    "builtins.object": "names columns of texts to that selector; it has no state",
    "sklearn.tree._tree.Tree": "arrays; checked by check_indices",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": "arrays; checked likewise",
    "sklearn.neighbors._kd_tree.KDTree": "arrays; checked likewise",
    "sklearn.neighbors._kd_tree.KDTree64": "arrays; checked likewise",
    "sklearn.neighbors._ball_tree.BallTree": "arrays; checked likewise",
    "sklearn.neighbors._ball_tree.BallTree64": "arrays; checked likewise",
    "sklearn.metrics._dist_metrics.EuclideanDistance": "a formula without parameters",
    "sklearn.metrics._dist_metrics.EuclideanDistance64": "a formula without parameters",
    "sklearn.metrics._dist_metrics.ManhattanDistance64": "a formula without parameters",
    "sklearn.utils._bunch.Bunch": "a dictionary",
    "sklearn.feature_selection._univariate_selection.f_classif": "a statistic of columns",
    "sklearn.calibration._CalibratedClassifier": "a model and its calibrators",
    "sklearn.calibration._SigmoidCalibration": "two numbers",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer": "numbers of the training",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer": "numbers of the training",
    "scipy.sparse._csr.csr_matrix": "arrays; checked likewise",
    "scipy.sparse._csr.csr_array": "arrays; checked likewise",
    "counterplay.poisoning.nearest_row.NearestRow": "rows and labels",
    "counterplay.poisoning.batched_mlp.BatchedMLPClassifier": "weights",
    "counterplay.poisoning.batched_mlp._Network": "weights",
    "counterplay.poisoning.block_fits.Categorised": "a model and lists of values",
}


def model_bytes(model: Any) -> bytes:
    """Return a model in the format of skops; raise if it cannot be held.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], ["a", "b"])
    >>> read_model(model_bytes(tree), what="the model").predict([[0.9]]).tolist()
    ['b']
    """
    skops = _skops()
    try:
        data: bytes = skops.dumps(model)
        skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:
        raise InvalidInputError(
            f"a {type(model).__name__} cannot be written with skops: {shown(error, 120)}"
        ) from error
    return data


def read_model(data: bytes, *, what: str, trust: Collection[str] = ()) -> Any:
    """Return the model in the bytes of a skops file.

    Parameters
    ----------
    data
        Content of the file.
    what
        How messages call it.
    trust
        Names of further types that the user trusts.
    """
    foreign = foreign_types(data, what=what, trust=trust)
    if foreign:
        raise InvalidStateError(
            f"{what} holds types that are not trusted and was not opened: "
            + ", ".join(shown(name, 90) for name in foreign[:2])
            + (f" and {len(foreign) - 2} more" if len(foreign) > 2 else "")
        )
    skops = _skops()
    try:
        model = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:
        raise InvalidStateError(f"{what} cannot be read: {shown(error, 120)}") from None
    check_indices(model, what)
    return model


def foreign_types(data: bytes, *, what: str, trust: Collection[str] = ()) -> list[str]:
    """Return the types in a skops file that are not trusted; nothing of the file is built."""
    _check_archive(data, what)
    try:
        found = _skops().get_untrusted_types(data=data)
    except Exception as error:
        raise InvalidStateError(f"{what} cannot be read: {shown(error, 120)}") from None
    return sorted(name for name in found if name not in TRUSTED and name not in trust)


def check_indices(model: Any, what: str) -> None:
    """Refuse a model whose trees, sparse matrices or vocabularies point outside of their arrays."""
    for part in _parts(model, set(), 0):
        name, kind = f"{type(part).__module__}.{type(part).__name__}", "tree"
        if name == "sklearn.tree._tree.Tree":
            good = _tree_fits(part)
        elif hasattr(part, "tree_") or hasattr(part, "_predictors"):
            good = _columns_used(part) <= getattr(part, "n_features_in_", -1)
            good = good and _categories_fit(part)
        elif hasattr(part, "estimators_") and hasattr(part, "n_features_in_"):
            good = _members_fit(part)
        elif name.endswith("hist_gradient_boosting.predictor.TreePredictor"):
            good = _predictor_fits(part)
        elif name.startswith(("sklearn.neighbors._kd_tree.", "sklearn.neighbors._ball_tree.")):
            good = _neighbours_fit(part)
        elif name.startswith("scipy.sparse."):
            good, kind = _sparse_fits(part), "matrix"
        elif hasattr(part, "vocabulary_"):
            good, kind = _vocabulary_fits(part.vocabulary_), "vocabulary"
        else:
            continue
        if not good:
            raise InvalidStateError(f"{what} holds a damaged {kind}: an index leaves its arrays")


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise MissingDependencyError.for_extra("skops", "audit") from None
    return skops.io


def _check_archive(data: bytes, what: str) -> None:
    """Refuse what is no archive, and archives that unpack to too much."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(item.file_size for item in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InvalidStateError(f"{what} is not a skops file: {shown(error, 80)}") from None
    if size > min(LARGEST_MODEL, max(LARGEST_RATIO * len(data), 1 << 20)):
        raise InvalidStateError(f"{what} unpacks to {size >> 20} MB; refused")


def _parts(value: Any, seen: set[int], depth: int) -> Iterator[Any]:
    """Yield an object and everything it holds."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | bool | type(None)):
        return
    seen.add(id(value))
    if depth > _DEEPEST:
        raise InvalidStateError(f"a model is nested more than {_DEEPEST} deep")
    yield value
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    elif isinstance(value, np.ndarray):
        inner = value.ravel().tolist() if value.dtype == object else ()
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        inner = vars(value).values()
    for part in inner:
        yield from _parts(part, seen, depth + 1)


def _tree_fits(tree: Any) -> bool:
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    n = tree.node_count
    if len(left) != n or len(feature) != n or n < 1 or len(tree.value) != n:
        return False
    inner = left >= 0
    leaves: BoolArray = (left == -1) & (right == -1)
    return bool(
        (inner | leaves).all()
        and _behind(left, right, inner)
        and (feature[inner] >= 0).all()
        and (feature[inner] < tree.n_features).all()
    )


def _columns_used(model: Any) -> int:
    """Columns that the trees of a model ask for: there must be as many in its input."""
    if hasattr(model, "tree_"):
        return int(model.tree_.n_features)
    used = [int(tree.nodes["feature_idx"].max()) for trees in model._predictors for tree in trees]
    return max(used, default=-1) + 1


def _members_fit(model: Any) -> bool:
    """Whether no tree of an ensemble asks for a column that the ensemble's input lacks."""
    members = np.asarray(model.estimators_, dtype=object).ravel().tolist()
    trees = [member.tree_ for member in members if hasattr(member, "tree_")]
    return all(int(tree.n_features) <= int(model.n_features_in_) for tree in trees)


def _categories_fit(model: Any) -> bool:
    """Whether nodes that look into a set of categories ask about columns of categories."""
    known = getattr(model, "is_categorical_", None)
    for trees in getattr(model, "_predictors", ()):
        for tree in trees:
            nodes = tree.nodes
            asked = nodes["feature_idx"][(nodes["is_categorical"] != 0) & (nodes["is_leaf"] == 0)]
            if len(asked) and (known is None or not np.asarray(known)[asked].all()):
                return False
    return True


def _behind(left: Any, right: Any, inner: BoolArray) -> bool:
    """Whether children lie behind their parent and inside the array: no way back, no way out."""
    here = np.flatnonzero(inner)
    low = np.minimum(left[inner], right[inner]).astype(np.int64)
    high = np.maximum(left[inner], right[inner]).astype(np.int64)
    return bool((low > here).all() and (high < len(left)).all())


def _predictor_fits(tree: Any) -> bool:
    nodes = tree.nodes
    if not isinstance(nodes, np.ndarray) or nodes.dtype.names is None or not len(nodes):
        return False
    inner = nodes["is_leaf"] == 0
    sets = [np.asarray(s) for s in (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets)]
    asks = inner & (nodes["is_categorical"] != 0)
    return bool(
        _behind(nodes["left"], nodes["right"], inner)
        and (nodes["feature_idx"][inner] >= 0).all()
        and all(s.ndim == 2 and s.shape[1] == _WORDS and s.dtype == np.uint32 for s in sets)
        and all((nodes["bitset_idx"][asks] < len(s)).all() for s in sets)
    )


def _sparse_fits(matrix: Any) -> bool:
    try:
        matrix.check_format(full_check=True)
    except ValueError:
        return False
    return True


def _vocabulary_fits(places: Any) -> bool:
    """Whether the words of a vectoriser count into columns that there are."""
    return isinstance(places, dict) and all(
        isinstance(place, int | np.integer) and 0 <= place < len(places)
        for place in places.values()
    )


def _neighbours_fit(tree: Any) -> bool:
    state = tree.__getstate__()
    data, order, nodes = np.asarray(state[0]), np.asarray(state[1]), np.asarray(state[2])
    n, levels, count = len(data), state[5], state[6]
    return bool(
        len(order) == n
        and count == len(nodes) == 2**levels - 1
        and np.asarray(state[3]).shape[1] == count
        and ((order >= 0) & (order < n)).all()
        and (nodes["idx_start"] >= 0).all()
        and (nodes["idx_start"] <= nodes["idx_end"]).all()
        and (nodes["idx_end"] <= n).all()
    )
