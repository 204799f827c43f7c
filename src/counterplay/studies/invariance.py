"""Studies of the invariance area: where augmentation helps, is not enough, or hurts.

Source: spec 11 section 5 (experiments E1 to E7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.study import Area, Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EPS = 1 / 64


def _int(params: Params, key: str) -> int:
    return int(params[key] or 0)


# E1: augmentation helps but is not optimal.


def proper_grid(scale: Scale) -> Sequence[Params]:
    """Number of points u*, sample sizes, replicates."""
    ds, sizes, replicates = ((4,), (2, 6, 24, 96), 6) if scale == "quick" else (
        (4, 8, 16), (1, 2, 4, 8, 16, 32, 64, 128, 256), 20
    )  # fmt: skip
    return [{"d": d, "m": m, "replicate": r} for d in ds for m in sizes for r in range(replicates)]


def proper_cell(params: Params, seed: int) -> Record:
    """Mean error of all learners over a few random instances."""
    from counterplay.invariance import (
        DA,
        ERM,
        ErmInv,
        OneInclusionInvariant,
        OneInclusionRelaxed,
        instances,
    )

    d, m = _int(params, "d"), _int(params, "m")
    rng = np.random.default_rng(seed)
    runs = 20
    names = ["erm", "da", "erm_inv", "one_inclusion", *(["relaxed"] if d <= 8 else [])]
    errors: dict[str, list[float]] = {name: [] for name in names}
    problem = instances.da_lower_bound(d, EPS, random_state=0).problem
    relaxed, invariant = OneInclusionRelaxed(problem), OneInclusionInvariant(problem)
    for index in range(runs):
        case = instances.da_lower_bound(d, EPS, random_state=rng)
        X, y = case.distribution.sample(m, rng)
        learners: dict[str, Any] = {
            "erm": ERM(problem, tie="random", random_state=rng),
            "da": DA(problem, tie="random", random_state=rng),
            "erm_inv": ErmInv(ERM(problem, tie="random", random_state=rng)),
        }
        if index < 4:
            learners["one_inclusion"] = invariant.fresh()
        if d <= 8 and index < 6:
            learners["relaxed"] = relaxed.fresh()
        for name, learner in learners.items():
            errors[name].append(case.distribution.error_of(learner.fit(X, y)))
    return {name: float(np.mean(values)) for name, values in errors.items()}


def proper_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Proper learners on the exact curve; the invariant learner at zero."""
    from counterplay.invariance import bounds

    verdicts = []
    d = int(frame["d"].min())
    for m in (6, 24) if 6 in set(frame["m"]) else (8, 32):
        part = frame[(frame["m"] == m) & (frame["d"] == d)]
        exact = bounds.proper_error(d, EPS, m)
        interval = mean_interval(part["da"], 0.9999)
        verdicts.append(
            Verdict(
                "11.07", f"Augmentation with {m} samples (d = {d}) follows the exact curve.",
                str(interval), f"{exact:.4f}", exact in interval,
            )
        )  # fmt: skip
    worst = float(frame["one_inclusion"].max())
    verdicts.append(
        Verdict("11.07", "The invariant one-inclusion learner makes no error for any sample size.",
                f"{worst:g}", "0", worst == 0.0)
    )  # fmt: skip
    part = frame.dropna(subset=["relaxed"]).groupby(["d", "m"])["relaxed"].mean()
    ratio = max(float(v) / min(1.0, d / (m + 1)) for (d, m), v in part.items())
    verdicts.append(
        Verdict("11.06", "The relaxed one-inclusion learner stays below VCao / (m + 1).",
                f"{ratio:.3f} of the bound", "<= 1", ratio <= 1)
    )  # fmt: skip
    return verdicts


def proper_figure(frame: pd.DataFrame) -> Figure:
    """Augmentation follows the exact curve of all proper learners (dashed); the one-inclusion
    learners do better. One-inclusion is optimal in the worst case, not on every benign data set.
    """
    from counterplay.invariance import bounds

    figure, (left, right) = panels(2, width=5.6)
    d = int(frame["d"].min())
    part = frame[frame["d"] == d]
    labels = {"erm": "ERM", "da": "augmentation", "erm_inv": "ERM-INV",
              "relaxed": "one-inclusion, relaxed",
              "one_inclusion": "one-inclusion, invariant"}  # fmt: skip
    for (name, label), colour, marker in zip(labels.items(), PALETTE, "os^Dv"):
        mean = part.groupby("m")[name].mean()
        left.plot(mean.index, mean, marker, color=colour, label=label, alpha=0.85)
    grid = np.unique(np.geomspace(1, part["m"].max(), 40).astype(int))
    left.plot(grid, [bounds.proper_error(d, EPS, int(m)) for m in grid], **THEORY)
    left.plot(grid, [min(0.26, d / (m + 1)) for m in grid], color=PALETTE[3], ls=":", lw=1.2)
    left.set(xscale="log", xlabel="number of samples", ylabel="error", ylim=(-0.005, 0.27),
             title=f"d = {d}; dotted: bound d/(m+1)")  # fmt: skip
    left.legend(fontsize=8)
    for d, colour in zip((2, 4, 8, 16, 32), PALETTE):
        eps = np.array([1 / 16, 1 / 32, 1 / 64, 1 / 128])
        right.plot(d / eps, [bounds.proper_least_m(d, float(e)) for e in eps], "o", color=colour,
                   label=f"d = {d}")  # fmt: skip
    line = np.geomspace(32, 4096, 20)
    right.plot(line, np.log(15) / 16 * line, label="0.1693 d/eps", **THEORY)
    right.set(xscale="log", yscale="log", xlabel="d / eps", ylabel="least m with error <= eps",
              title="samples that augmentation needs")  # fmt: skip
    right.legend(fontsize=8)
    return figure


# E2: knowing the group helps.


def helps_grid(scale: Scale) -> Sequence[Params]:
    """Sample sizes and replicates."""
    sizes, replicates = ((5, 20, 80), 8) if scale == "quick" else ((2, 5, 10, 20, 40, 80, 160), 40)
    return [{"m": m, "replicate": r} for m in sizes for r in range(replicates)]


def helps_cell(params: Params, seed: int) -> Record:
    """Mean errors of ERM and augmentation over random groups."""
    from counterplay.invariance import DA, ERM, instances

    rng = np.random.default_rng(seed)
    erm: list[float] = []
    da: list[float] = []
    for _ in range(50):
        case = instances.da_helps(21, EPS, random_state=rng)
        X, y = case.distribution.sample(_int(params, "m"), rng)
        for kind, out in ((ERM, erm), (DA, da)):
            learner = kind(case.problem, case.group, tie="random", random_state=rng)
            out.append(case.distribution.error_of(learner.fit(X, y)))
    return {"erm": float(np.mean(erm)), "da": float(np.mean(da))}


def helps_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """ERM on its formula, augmentation far below."""
    from counterplay.invariance import bounds

    part = frame[frame["m"] == 20]
    exact, interval = bounds.blind_error(21, EPS, 20), mean_interval(part["erm"], 0.9999)
    ratio = float(part["erm"].mean() / part["da"].mean())
    return [
        Verdict("11.08", "ERM, blind to the group, has error 8 eps (1 - 16 eps/(d-1))^m.",
                str(interval), f"{exact:.4f}", exact in interval),
        Verdict("11.08", "Augmentation is more than five times better at m = 20.",
                f"{ratio:.1f} times", "> 5", ratio > 5),
    ]  # fmt: skip


def helps_figure(frame: pd.DataFrame) -> Figure:
    """All labelings of 21 points, but three orbits: augmentation learns from a few samples what
    ERM learns point by point (dashed: exact).
    """
    from counterplay.invariance import bounds

    figure, (ax,) = panels(1)
    for name, label, colour in (("erm", "ERM", PALETTE[0]), ("da", "augmentation", PALETTE[1])):
        groups = frame.groupby("m")[name]
        ax.errorbar(groups.mean().index, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3,
                    color=colour, label=label)  # fmt: skip
    grid = np.geomspace(2, frame["m"].max(), 40).astype(int)
    ax.plot(grid, [bounds.blind_error(21, EPS, int(m)) for m in grid], label="exact, blind",
            **THEORY)  # fmt: skip
    ax.set(xscale="log", xlabel="number of samples", ylabel="error", ylim=(-0.003, None))
    _plain_ticks(ax, (2, 5, 10, 20, 40, 80))
    ax.legend()
    return figure


# E3: augmentation can hurt.


def birds_grid(scale: Scale) -> Sequence[Params]:
    """Number of birds and of samples."""
    Ks, sizes, replicates = (
        ((4,), (1, 3, 12), 4) if scale == "quick" else ((4, 5, 8, 16), (1, 3, 6, 12, 24), 30)
    )
    return [{"K": K, "n": n, "replicate": r} for K in Ks for n in sizes
            for r in range(replicates)]  # fmt: skip


def birds_cell(params: Params, seed: int) -> Record:
    """Mean errors on random birds; beyond 5 birds the orbit-only optimum is w = 1/2."""
    from counterplay.invariance import DA, ERM, ErmInv, OrbitOnlyOptimal, instances

    K, n = _int(params, "K"), _int(params, "n")
    rng = np.random.default_rng(seed)
    errors: dict[str, list[float]] = {"erm": [], "erm_inv": [], "da": [], "orbit_only": []}
    best = OrbitOnlyOptimal(instances.background_birds(K, random_state=0).problem)
    for _ in range(100):
        case = instances.background_birds(K, random_state=rng)
        D = case.distribution
        X, y = D.sample(n, rng)
        errors["erm"].append(D.error_of(ERM(case.problem).fit(X, y)))
        errors["erm_inv"].append(D.error_of(ErmInv(ERM(case.problem)).fit(X, y)))
        da = DA(case.problem, tie="random", random_state=rng)
        errors["da"].append(D.error_of(da.fit(X, y)))
        if K <= 5:
            errors["orbit_only"].append(
                D.error(best.fresh().fit(X, y).predict_proba(D.points)[:, 1])
            )
        else:
            errors["orbit_only"].append(0.5 * float((~np.isin(D.points, X)).mean()))
    return {name: float(np.mean(values)) for name, values in errors.items()}


def birds_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """ERM at zero, augmentation at one half, the orbit-only optimum on its curve."""
    from counterplay.invariance import bounds

    K = int(frame["K"].min())
    part = frame[(frame["K"] == K) & (frame["n"] == 3)]
    exact, interval = bounds.birds_error(K, 3), mean_interval(part["orbit_only"], 0.9999)
    da = mean_interval(frame["da"], 0.9999)
    erm = float(frame[["erm", "erm_inv"]].to_numpy().max())
    return [
        Verdict("11.11", "ERM and ERM-INV are perfect after one sample.", f"{erm:g}", "0",
                erm == 0),
        Verdict("11.11", "Augmentation is a coin toss for every sample size.", str(da), "0.5",
                0.5 in da),
        Verdict("11.11", f"The best orbit-only learner follows (1-1/K)^n/2 (K = {K}, n = 3).",
                str(interval), f"{exact:.4f}", exact in interval),
    ]  # fmt: skip


def birds_figure(frame: pd.DataFrame) -> Figure:
    """Birds on swappable backgrounds: augmentation never learns (1/2), the best learner that sees
    only orbits needs to see every bird (dashed: exact), ERM needs one sample.
    """
    from counterplay.invariance import bounds

    figure, (ax,) = panels(1)
    K = int(frame["K"].min())
    part = frame[frame["K"] == K]
    labels = {"da": "augmentation", "orbit_only": "best orbit-only learner", "erm_inv": "ERM-INV"}
    for (name, label), colour in zip(labels.items(), PALETTE):
        groups = part.groupby("n")[name]
        ax.errorbar(groups.mean().index, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3,
                    color=colour, label=label)  # fmt: skip
    grid = np.arange(1, 25)
    ax.plot(grid, [bounds.birds_error(K, int(n)) for n in grid], label="(1-1/K)^n / 2", **THEORY)
    ax.set(xlabel="number of samples", ylabel="error", ylim=(-0.02, 0.7), title=f"K = {K} birds")
    ax.legend()
    return figure


# E4: adaptivity.


def adaptive_grid(scale: Scale) -> Sequence[Params]:
    """Invariance levels, sample sizes, replicates."""
    sizes, replicates = ((20, 80), 6) if scale == "quick" else ((10, 20, 40, 80, 160), 80)
    return [{"eta": eta, "m": m, "replicate": r} for eta in (0.0, 0.05, 0.2, 0.4) for m in sizes
            for r in range(replicates)]  # fmt: skip


def adaptive_cell(params: Params, seed: int) -> Record:
    """Errors of four learners on one random instance, and the chosen level."""
    from counterplay.invariance import (
        ERM,
        AdaptiveRelaxed,
        ErmInv,
        OneInclusionInvariant,
        OneInclusionRelaxed,
        instances,
    )

    rng = np.random.default_rng(seed)
    case = instances.eta_family(4, float(params["eta"] or 0.0), random_state=rng)
    X, y = case.distribution.sample(_int(params, "m"), rng)
    adaptive = AdaptiveRelaxed(case.problem, practical=True, random_state=rng)
    learners: dict[str, Any] = {
        "adaptive": adaptive,
        "invariant": OneInclusionInvariant(case.problem),
        "relaxed": OneInclusionRelaxed(case.problem),
        "erm_inv": ErmInv(ERM(case.problem, tie="random", random_state=rng)),
    }
    out = {name: case.distribution.error_of(m.fit(X, y)) for name, m in learners.items()}
    return {**out, "level": adaptive.chosen_}


def adaptive_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Zero error at eta = 0; learning at eta = 0.4."""
    zero = frame[frame["eta"] == 0.0]
    late = frame[(frame["eta"] == 0.4) & (frame["m"] >= 80)]
    worst, mean = float(zero["adaptive"].max()), float(late["adaptive"].mean())
    return [
        Verdict("11.16", "With a fully invariant target the adaptive learner makes no error.",
                f"{worst:g} (levels {sorted(set(zero['level'].astype(int)))})", "0", worst == 0),
        Verdict("11.16", "With 40 % of the mass on mixed orbits it still learns (m >= 80).",
                f"{mean:.4f}", "< 0.02", mean < 0.02),
    ]  # fmt: skip


def adaptive_figure(frame: pd.DataFrame) -> Figure:
    """The adaptive learner is as good as the invariant one at eta = 0 and as the relaxed one later.
    The gain is at small eta; at other levels it pays for the validation half of its sample.
    """
    figure, (left, right) = panels(2, width=5.4)
    m = int(frame["m"].min())
    part = frame[frame["m"] == m]
    labels = {"adaptive": "adaptive", "invariant": "one-inclusion, invariant",
              "relaxed": "one-inclusion, relaxed", "erm_inv": "ERM-INV"}  # fmt: skip
    for offset, ((name, label), colour) in enumerate(zip(labels.items(), PALETTE)):
        groups = part.groupby("eta")[name]
        place = np.arange(4) + 0.15 * (offset - 1.5)
        left.errorbar(place, groups.mean(), 2 * groups.sem().fillna(0), fmt="o", capsize=3,
                      color=colour, label=label)  # fmt: skip
    left.set_xticks(range(4), ["0", "0.05", "0.2", "0.4"])
    left.set(xlabel="invariance level eta of the target", ylabel="error",
             title=f"{m} samples")  # fmt: skip
    left.legend(fontsize=8)
    for offset, (eta, rows) in enumerate(frame.groupby("eta")):
        counts = rows["level"].astype(int).value_counts(normalize=True).sort_index()
        right.bar(counts.index + 0.18 * (offset - 1.5), counts, 0.17, label=f"eta = {eta:g}")
    right.set(xlabel="chosen level i", ylabel="share of runs")
    right.set_xticks(range(int(frame["level"].max()) + 1))
    right.legend(fontsize=8)
    return figure


# E5: real data with an exact symmetry.


def boards_grid(scale: Scale) -> Sequence[Params]:
    """Models, sample sizes, splits."""
    sizes, splits = ((50, 200), 3) if scale == "quick" else ((25, 50, 100, 200, 400), 15)
    return [{"model": model, "m": m, "split": r} for model in ("tree", "linear SVM")
            for m in sizes for r in range(splits)]  # fmt: skip


def boards_cell(params: Params, seed: int) -> Record:
    """Natural test error of the five candidates on tic-tac-toe endgames."""
    from sklearn.svm import LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    from counterplay.invariance import (
        AugmentedClassifier,
        ErmInvClassifier,
        OrbitVoteClassifier,
        groups,
        one_hot_boards,
        tic_tac_toe_endgames,
    )

    X, y = tic_tac_toe_endgames()
    X, group = one_hot_boards(X), groups.d4((3, 3, 3))
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[: _int(params, "m")], order[_int(params, "m") :]
    base: Any = (
        DecisionTreeClassifier(random_state=0)
        if params["model"] == "tree"
        else LinearSVC(random_state=0, C=1.0)
    )
    models = {
        "erm": base,
        "erm_inv": ErmInvClassifier(base, group),
        "da": AugmentedClassifier(base, group),
        "da_inv": ErmInvClassifier(base, group, augment=True),
        "da_vote": OrbitVoteClassifier(AugmentedClassifier(base, group), group),
    }
    out: dict[str, float] = {
        name: 1 - model.fit(X[train], y[train]).score(X[test], y[test])
        for name, model in models.items()
    }
    known = set(group.orbit_key(X[train]))
    out["known_orbits"] = float(np.mean([key in known for key in group.orbit_key(X[test])]))
    return out


def boards_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Augmentation helps the tree; the look-up wins for the linear class."""
    tree = frame[(frame["model"] == "tree") & (frame["m"] == 200)]
    linear = frame[(frame["model"] == "linear SVM") & (frame["m"] == 200)]
    gain = float(tree["erm"].mean() / max(tree["da"].mean(), 1e-9))
    look = float((linear["da"] - linear["da_inv"]).mean())
    return [
        Verdict("11.24", "With a tree (setting (i)) augmentation cuts the error at m = 200.",
                f"{gain:.1f} times", "> 3", gain > 3),
        Verdict("11.24", "With a linear class (agnostic) the look-up improves on augmentation.",
                f"{look:.4f} lower error", ">= 0", look >= 0),
    ]  # fmt: skip


def boards_figure(frame: pd.DataFrame) -> Figure:
    """Tic-tac-toe endgames with the eight symmetries of the board. Grey: share of test boards whose
    orbit is in the training set. A tree profits from augmentation, a linear class from look-ups.
    """
    figure, axes = panels(2, width=5.4)
    labels = {"erm": "ERM", "erm_inv": "ERM-INV", "da": "DA", "da_inv": "DA+INV",
              "da_vote": "DA+vote"}  # fmt: skip
    for ax, model in zip(axes, ("tree", "linear SVM")):
        part = frame[frame["model"] == model]
        share = part.groupby("m")["known_orbits"].mean()
        twin = ax.twinx()
        twin.fill_between(share.index, share, color="#CCCCCC", alpha=0.4, lw=0)
        twin.set_ylim(0, 1)
        twin.grid(False)
        twin.set_ylabel("share of known orbits")
        for (name, label), colour in zip(labels.items(), PALETTE):
            mean = part.groupby("m")[name].mean()
            style = "s--" if name.startswith("da_") else "o-"
            ax.plot(mean.index, mean, style, color=colour, label=label)
        ax.set_zorder(twin.get_zorder() + 1)
        ax.patch.set_visible(False)
        ax.set(xscale="log", xlabel="training boards", ylabel="natural test error", title=model)
        _plain_ticks(ax, sorted(set(part["m"])))
        ax.legend(fontsize=8)
    return figure


# E6: the agnostic rate.


def agnostic_grid(scale: Scale) -> Sequence[Params]:
    """Blocks, accuracy, budget c = m eps^2 / d, replicates."""
    replicates = 12 if scale == "quick" else 40
    return [{"d": d, "eps": eps, "c": c, "replicate": r} for d in (4, 16) for eps in (0.05, 0.1)
            for c in (0.05, 0.1, 0.2) for r in range(replicates)]  # fmt: skip


def agnostic_cell(params: Params, seed: int) -> Record:
    """Mean excess error of ERM in units of eps."""
    d, eps, c = _int(params, "d"), float(params["eps"] or 0), float(params["c"] or 0)
    rng = np.random.default_rng(seed)
    m = round(c * d / eps**2)
    counts = rng.multinomial(m, np.full(d, 1 / d), size=400)
    ones = rng.binomial(counts, 0.5 + 2 * eps)
    wrong = np.where(2 * ones == counts, 0.5, 2 * ones < counts)
    return {"excess": float(4 * eps * wrong.mean() / eps), "m": m}


def agnostic_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Simulation on the exact formula; curves nearly collapse."""
    from counterplay.invariance import bounds

    part = frame[(frame["d"] == 4) & (frame["eps"] == 0.1) & (frame["c"] == 0.05)]
    exact = bounds.agnostic_excess(4, 0.2, 20) / 0.1
    interval = mean_interval(part["excess"], 0.9999)
    values = [bounds.agnostic_excess(d, 2 * e, round(0.05 * d / e**2)) / e
              for d in (4, 16) for e in (0.05, 0.1)]  # fmt: skip
    spread = max(values) / min(values) - 1
    return [
        Verdict("11.20", "ERM's excess error equals the binomial formula.", str(interval),
                f"{exact:.4f}", exact in interval),
        Verdict("11.20", "Excess / eps depends on m eps^2 / d only, up to a few percent.",
                f"{spread:.1%}", "< 6%", spread < 0.06),
    ]  # fmt: skip


def agnostic_figure(frame: pd.DataFrame) -> Figure:
    """In the agnostic setting d / eps^2 samples are needed: the curves for different d and eps
    collapse (dashed: exact binomial formula for d = 16, eps = 0.05).
    """
    from counterplay.invariance import bounds

    figure, (ax,) = panels(1)
    for ((d, eps), rows), colour in zip(frame.groupby(["d", "eps"]), PALETTE):
        groups = rows.groupby("c")["excess"]
        ax.errorbar(groups.mean().index, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3,
                    color=colour, label=f"d = {d}, eps = {eps:g}")  # fmt: skip
    grid = np.linspace(0.03, 0.22, 30)
    theory = [bounds.agnostic_excess(16, 0.1, round(c * 16 / 0.0025)) / 0.05 for c in grid]
    ax.plot(grid, theory, label="exact", **THEORY)
    ax.set(xlabel="m eps^2 / d", ylabel="excess error / eps")
    ax.legend()
    return figure


# E7: which dimension matters.


def dimension_grid(scale: Scale) -> Sequence[Params]:
    """Names of the constructions."""
    names = ("subsets", "lower bound", "birds", "images", "constrained images", "indicators",
             "quarter turns")  # fmt: skip
    return [{"case": name} for name in names]


def dimension_cell(params: Params, seed: int) -> Record:
    """All dimensions of one construction, and what theory says."""
    from counterplay.invariance import dim, instances, mu, vcao, vcdim, vco

    case = {
        "subsets": lambda: instances.example_vco0(2),
        "lower bound": lambda: instances.da_lower_bound(2, EPS, random_state=0),
        "birds": lambda: instances.background_birds(4, random_state=0),
        "images": lambda: instances.rotated_images(2, 2),
        "constrained images": lambda: instances.rotated_images(4, 1, constrained=True),
        "indicators": lambda: instances.indicator_blowup(2),
        "quarter turns": lambda: instances.halfspaces_c4(4),
    }[str(params["case"])]()
    small = len(case.problem.H) <= 80  # type: ignore[union-attr]  # all of these are explicit
    out: dict[str, Any] = {
        "VCdim": vcdim(case.problem).value,
        "VCao": vcao(case.problem).value,
        "VCo": vco(case.problem).value,
        "dim": dim(case.problem).value if small else None,
        "mu": mu(case.problem).value if small else None,
    }
    facts = dict(case.facts)
    out["agrees"] = all(facts.get(name, out[name]) == out[name] for name in ("VCdim", "VCao"))
    return out


def dimension_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Order of the dimensions, and mu at least dim / 2."""
    ordered = bool(((frame["VCo"] <= frame["VCao"]) & (frame["VCao"] <= frame["VCdim"])).all())
    known = frame.dropna(subset=["mu"])
    half = bool((known["mu"] >= known["dim"] / 2 - 1e-9).all())
    return [
        Verdict("11.01", "VCo <= VCao <= VCdim, with the values of the theory.",
                "all constructions", "holds", ordered and bool(frame["agrees"].all())),
        Verdict("11.09", "mu is at least half of dim.", "all small constructions", "holds", half),
    ]  # fmt: skip


def dimension_figure(frame: pd.DataFrame) -> Figure:
    """Which dimension matters: VCdim governs ERM without the group, VCao augmentation and look-up,
    VCo the optimum of the invariant setting, mu every learner that sees only orbits.
    """
    figure, (ax,) = panels(1, width=7.5)
    place = np.arange(len(frame))
    for offset, (name, colour) in enumerate(zip(("VCdim", "VCao", "VCo", "dim", "mu"), PALETTE)):
        values = frame[name].astype(float) / (2 if name == "dim" else 1)
        label = "dim / 2" if name == "dim" else name
        ax.bar(place + 0.16 * (offset - 2), values, 0.15, color=colour, label=label)
    ax.set_xticks(place, frame["case"], rotation=15, fontsize=8)
    ax.set(ylabel="dimension", ylim=(0, 1.2 * float(frame["VCdim"].max())))
    ax.legend(ncols=5, fontsize=8)
    return figure


def _plain_ticks(ax: Any, values: Sequence[int]) -> None:
    ax.set_xticks(values, [str(v) for v in values])
    ax.minorticks_off()


def _study(name: str, title: str, question: str, claims: tuple[str, ...], parts: Any) -> Study:
    grid, cell, verdicts, figure = parts
    return Study(
        name=name, title=title, question=question, claims=claims, grid=grid, cell=cell,
        verdicts=verdicts, figures={name: figure},
    )  # fmt: skip


AREA = Area(
    name="invariance",
    title="Augment, average, or neither",
    story=(
        "Labels often do not change when an image is rotated or a board is mirrored. Everyone "
        "trains on transformed copies.\n\n"
        "That helps when some hypothesis fits the copies, it is not the best one can do, and it "
        "hurts when none fits. The look-up of known orbits never hurts, one-inclusion learners "
        "are optimal in the worst case, and the advisor measures on your data which case it is."
    ),
    studies=(
        _study(
            "not-optimal", "Augmentation helps, but is not optimal",
            "Every proper learner, augmented or not, follows one exact curve; learners that look "
            "at the orbit of the test point need no data at all.",
            ("11.06", "11.07"), (proper_grid, proper_cell, proper_verdicts, proper_figure),
        ),
        _study(
            "helps", "Knowing the group helps",
            "Three orbits instead of 21 free points: how much does augmentation gain?",
            ("11.08",), (helps_grid, helps_cell, helps_verdicts, helps_figure),
        ),
        _study(
            "hurts", "Augmentation can hurt",
            "Birds whose backgrounds can be swapped: what is left for a learner that forgets which "
            "copy was natural?",
            ("11.11",), (birds_grid, birds_cell, birds_verdicts, birds_figure),
        ),
        _study(
            "adaptive", "Adapting to unknown invariance",
            "The target is constant on all but a share eta of the orbits. Does the adaptive "
            "learner find the right level?",
            ("11.16",), (adaptive_grid, adaptive_cell, adaptive_verdicts, adaptive_figure),
        ),
        _study(
            "tic-tac-toe", "Real boards with an exact symmetry",
            "958 endgames, 138 orbits. When does augmentation, when does the look-up win?",
            ("11.24",), (boards_grid, boards_cell, boards_verdicts, boards_figure),
        ),
        _study(
            "agnostic-rate", "The agnostic rate d / eps^2",
            "Does the excess error depend on m eps^2 / d only?",
            ("11.20",), (agnostic_grid, agnostic_cell, agnostic_verdicts, agnostic_figure),
        ),
        _study(
            "dimensions", "Which dimension matters",
            "All dimensions of all constructions side by side.",
            ("11.01", "11.09"),
            (dimension_grid, dimension_cell, dimension_verdicts, dimension_figure),
        ),
    ),
)  # fmt: skip
