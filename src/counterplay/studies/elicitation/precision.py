"""Error against the person's precision: linear, not a cube root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.lab import MDPOracle, SharedBases, truncation_delta
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, slope

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

K, H = 4, 6
METHODS = ("thesis", "barycentric", "truncated", "refined")
STYLE = {"thesis": "o-", "barycentric": "s-", "truncated": "^-", "refined": "v-"}


def _grid(scale: Scale) -> Sequence[Params]:
    processes = 12 if scale == "quick" else 60
    powers = range(1, 7) if scale == "quick" else np.arange(1.0, 6.01, 0.5).tolist()
    return [{"process": i, "power": float(p)} for i in range(processes) for p in powers]


def _user(process: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    w = np.random.default_rng([8, process]).dirichlet(np.ones(K))
    return np.asarray(w / np.linalg.norm(w))


def _cell(params: Params, seed: int) -> Record:
    process, eps = int(params["process"] or 0), 10.0 ** -float(params["power"] or 1)
    mdp = instances.random_mdp(process, k=K, horizon=H)
    w = _user(process)
    best = float(plan(mdp, w).scalar_values[0])
    user = LinearPreferenceUser(w, eps)
    delta = truncation_delta("statement", k=K, d=K, scale=mdp.scale, eps=eps)
    elicitors: dict[str, PreferenceElicitor] = {
        "thesis": PreferenceElicitor(SharedBases(mdp, kind="thesis")),
        "barycentric": PreferenceElicitor(mdp),
        "truncated": PreferenceElicitor(mdp, basis="thesis", estimator="truncated", delta=delta),
        "refined": PreferenceElicitor(mdp, refine=6, precision=True),
    }
    record: dict[str, Any] = {"best": best}
    for method, elicitor in elicitors.items():
        result = answered_by(elicitor, user)
        estimate = result.estimate
        assert estimate is not None
        x = float(estimate.basis_values[0] @ w)
        record[f"gap_{method}"] = x * _sup_gap(mdp, estimate.w_hat - w / x)
        record[f"regret_{method}"] = max(0.0, best - float(result.value @ w))
        record[f"certificate_{method}"] = result.regret_certificate
        record[f"questions_{method}"] = result.n_queries
        record["x"], record["d"] = x, len(estimate.basis_values)
    return record


def _sup_gap(mdp: Any, difference: Any) -> float:
    _, values = MDPOracle(mdp).argmax(np.stack([difference, -difference]))
    return float(max(values[0] @ difference, -(values[1] @ difference)))


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    eps = 10.0**-frame.power
    found = []
    for method, claim in (("thesis", "08.10"), ("barycentric", "08.11")):
        means = frame.groupby("power")[f"gap_{method}"].mean()
        told = f"Slope of the value error against eps on log-log axes, {method} basis (proved: 1/3)"
        found.append(slope(claim, told, 10.0 ** -means.index.to_numpy(), means, 1.0, 0.05))
    limits = {
        "thesis": [bounds.regret_thesis_basis(K, int(d), e) for d, e in zip(frame.d, eps)],
        "barycentric": [bounds.regret_barycentric(K, int(d), e) for d, e in zip(frame.d, eps)],
    }
    for method, claim in (("thesis", "08.10"), ("barycentric", "08.11")):
        share = float((frame[f"regret_{method}"] / limits[method]).max())
        told = f"Largest regret in units of its bound, {method} basis"
        found.append(at_most(claim, told, share, 1.0))
    over = float((frame.regret_barycentric / (frame.certificate_barycentric * frame.best)).max())
    most = [bounds.total_questions(K, int(d), x / e) for d, x, e in zip(frame.d, frame.x, eps)]
    spare = int((np.array(most) - frame.questions_barycentric).min())
    return [
        *found,
        at_most("08.27", "Largest regret in units of its certificate", over, 1.0),
        at_least("08.07", "Fewest questions left over from the bound", spare, 0),
    ]


def _errors(frame: pd.DataFrame) -> Figure:
    """Largest error of any policy's value (mean over random processes) against the person's
    precision. The full estimators fall with slope 1, far below the proved bound; the truncated one
    is biased until its threshold drops below every direction; refining gets below the precision."""
    figure, (axes,) = panels(1)
    for i, method in enumerate(METHODS):
        means = frame.groupby("power")[f"gap_{method}"].mean()
        eps = 10.0 ** -means.index.to_numpy()
        hollow = {"mfc": "none", "ms": 10} if method == "thesis" else {"ms": 5}
        axes.loglog(eps, means, STYLE[method], color=PALETTE[i], label=method, **hollow)
    eps = np.array([10.0 ** -frame.power.max(), 10.0 ** -frame.power.min()])
    axes.loglog(eps, bounds.regret_thesis_basis(K, K, 1.0) * eps, **THEORY, label="4kB eps")
    axes.loglog(eps, eps ** (1 / 3), color="#444444", ls=":", lw=1.4, label="slope 1/3")
    axes.set_xlabel("precision eps of the person")
    axes.set_ylabel("largest value error")
    axes.legend(fontsize=8)
    return figure


def _questions(frame: pd.DataFrame) -> Figure:
    """Questions asked against the precision, mean and range over random processes, with the bound
    (k-1) + (d-1)(ceil(log2(2k x/eps)) + 1)."""
    figure, (axes,) = panels(1)
    by = frame.groupby("power")["questions_barycentric"]
    powers = by.mean().index.to_numpy()
    axes.fill_between(powers, by.min(), by.max(), color=PALETTE[0], alpha=0.2)
    axes.plot(powers, by.mean(), "o-", color=PALETTE[0], label="asked")
    x = frame.groupby("power")["x"].mean().to_numpy()
    limit = [bounds.total_questions(K, K, ratio) for ratio in x * 10.0**powers]
    axes.plot(powers, limit, **THEORY, label="bound at the mean x")
    axes.set_xlabel("decimal digits of precision, log10(1/eps)")
    axes.set_ylabel("questions")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    return figure


PRECISION = Study(
    name="error-versus-precision",
    title="The error is linear in the person's precision",
    question=(
        "Random decision processes with four objectives are elicited from users of different "
        "precision. The error of the values should fall linearly with the precision, although the "
        "thesis proves only a cube root, and stay below the explicit bounds."
    ),
    claims=("08.07", "08.10", "08.11", "08.27"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"errors": _errors, "questions": _questions},
)
