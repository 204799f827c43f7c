"""From raw tables to numbers: labels where 1 is the wanted outcome, features without gaps.

Numbers stay as they are; a gap is filled with the median of its column and marked by one more
column. Categories become one 0/1 column each (a single one where there are two). The raw frame is
always kept beside the numbers, so that nothing is lost.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.errors import DataUnavailableError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

Reader = Callable[[Sequence[Path]], dict[str, Any]]
GERMAN_COLUMNS = (
    "status_checking", "duration_months", "credit_history", "purpose", "credit_amount", "savings",
    "employment_since", "installment_rate", "personal_status_sex", "other_debtors",
    "residence_since", "property", "age", "other_installment_plans", "housing",
    "existing_credits", "job", "people_liable", "telephone", "foreign_worker", "class",
)  # fmt: skip
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week",
    "native_country", "income",
)  # fmt: skip
COMPAS_FEATURES = (
    "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
    "c_charge_degree",
)  # fmt: skip


def parquet(task: Callable[[pd.DataFrame], dict[str, Any]]) -> Reader:
    """Return a reader of one parquet file that applies ``task`` to the frame."""

    def read(paths: Sequence[Path]) -> dict[str, Any]:
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingDependencyError.for_extra("pyarrow", "data")
        import pandas as pd

        return _apply(task, pd.read_parquet(paths[0]), paths[0])

    return read


def text(task: Callable[[pd.DataFrame], dict[str, Any]], **options: Any) -> Reader:
    """Return a reader of one delimited text file; ``options`` go to ``pandas.read_csv``."""

    def read(paths: Sequence[Path]) -> dict[str, Any]:
        import pandas as pd

        return _apply(task, pd.read_csv(paths[0], **options), paths[0])

    return read


def _apply(
    task: Callable[[pd.DataFrame], dict[str, Any]], frame: pd.DataFrame, path: Path
) -> dict[str, Any]:
    try:
        return task(frame)
    except KeyError as error:
        raise DataUnavailableError(f"{path} lacks the column {error}; is it the right file?") from (
            None
        )


def frame_only(frame: pd.DataFrame) -> dict[str, Any]:
    """Keep the table as it is."""
    return {"frame": frame}


def german_credit(frame: pd.DataFrame) -> dict[str, Any]:
    """Good credit is class 1 of the original."""
    return _task(frame, frame["class"] == 1, drop=("class",))


def adult(frame: pd.DataFrame) -> dict[str, Any]:
    """Income above 50,000; the sampling weight is not a feature."""
    return _task(frame, frame["income"].str.strip() == ">50K", drop=("income", "fnlwgt"))


def give_me_some_credit(frame: pd.DataFrame) -> dict[str, Any]:
    """No serious delinquency within two years."""
    frame = frame.rename(columns={"Unnamed: 0": "Id"})
    gaps = ("MonthlyIncome", "NumberOfDependents")
    frame = frame.astype(dict.fromkeys(gaps, np.float64))
    whole = [column for column in frame if str(frame[column].dtype).lower().startswith("int")]
    frame = frame.astype(dict.fromkeys(whole, np.int64))
    return _task(frame, frame["SeriousDlqin2yrs"] == 0, drop=("SeriousDlqin2yrs", "Id"))


def taiwan(frame: pd.DataFrame) -> dict[str, Any]:
    """No default in the next month."""
    label = "default payment next month"
    categories = ("SEX", "EDUCATION", "MARRIAGE")
    return _task(frame, frame[label] == 0, drop=(label, "ID"), categories=categories)


def heloc(frame: pd.DataFrame) -> dict[str, Any]:
    """Good risk; the codes -7, -8 and -9 mean that there is no number."""
    features = frame.drop(columns="RiskPerformance")
    cleaned = features.astype(np.float64).where(~features.isin((-7, -8, -9)))
    fields = _task(cleaned, frame["RiskPerformance"] == 0)
    return {**fields, "frame": frame}


def compas(frame: pd.DataFrame) -> dict[str, Any]:
    """No new offence within two years; only what was known at screening is a feature."""
    fields = _task(frame[list(COMPAS_FEATURES)], frame["two_year_recid"] == 0)
    return {**fields, "frame": frame}


def law_school(frame: pd.DataFrame) -> dict[str, Any]:
    """Passed the bar exam."""
    return _task(frame, frame["pass_bar"] == 1, drop=("pass_bar",))


def bank_marketing(frame: pd.DataFrame) -> dict[str, Any]:
    """Subscribed; the length of the call is known only afterwards and is not a feature."""
    return _task(frame, frame["y"] == "yes", drop=("y", "duration"))


def elec2(frame: pd.DataFrame) -> dict[str, Any]:
    """The price of electricity rises."""
    return _task(frame, frame["class"] == 1, drop=("class",))


def spambase(frame: pd.DataFrame) -> dict[str, Any]:
    """Wanted mail: senders want to be delivered."""
    return _task(frame, frame["spam"] == 0, drop=("spam",))


def sms_spam(frame: pd.DataFrame) -> dict[str, Any]:
    """Wanted messages; the features are the texts themselves."""
    y = (frame["label"] == "ham").to_numpy(dtype=np.int64)
    texts = frame["text"].to_numpy(dtype=object)
    return {"frame": frame, "X": texts, "y": y, "feature_names": ("text",)}


def wine_quality(frame: pd.DataFrame) -> dict[str, Any]:
    """Quality score, an integer from 3 to 9."""
    return _task(frame, frame["quality"], drop=("quality",))


def _task(
    frame: pd.DataFrame,
    label: pd.Series[Any],
    *,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> dict[str, Any]:
    x, names = encode(frame.drop(columns=list(drop)), categories)
    return {
        "frame": frame,
        "X": x,
        "y": label.to_numpy(dtype=np.int64),
        "feature_names": tuple(names),
    }


def encode(
    frame: pd.DataFrame, categories: Sequence[str] = ()
) -> tuple[NDArray[np.float64], list[str]]:
    """Return the frame as numbers without gaps, and the names of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [30.0, None, 50.0], "job": ["b", "a", "c"]})
    >>> values, names = encode(table)
    >>> names
    ['age', 'age is missing', 'job=a', 'job=b', 'job=c']
    >>> values[1].tolist()
    [40.0, 1.0, 1.0, 0.0, 0.0]
    """
    from pandas.api.types import is_numeric_dtype

    columns: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name in frame.columns:
        series = frame[name]
        if is_numeric_dtype(series.dtype) and name not in categories:
            columns_of, names_of = _numbers(series.to_numpy(dtype=np.float64), str(name))
        else:
            columns_of, names_of = _indicators(series, str(name))
        columns += columns_of
        names += names_of
    return np.column_stack(columns), names


def _numbers(values: NDArray[np.float64], name: str) -> tuple[list[NDArray[np.float64]], list[str]]:
    gap = np.isnan(values)
    if not gap.any():
        return [values], [name]
    filled = np.where(gap, np.median(values[~gap]), values)
    return [filled, gap.astype(np.float64)], [name, f"{name} is missing"]


def _indicators(series: pd.Series[Any], name: str) -> tuple[list[NDArray[np.float64]], list[str]]:
    values = series.astype(object).where(series.notna(), "(missing)").to_numpy()
    levels = sorted(set(values.tolist()))
    shown = levels[1:] if len(levels) == 2 else levels
    return [(values == level).astype(np.float64) for level in shown], [
        f"{name}={level}" for level in shown
    ]
