"""The words of a consortium plan: what was measured, what to do, who holds back, what to doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution.sites.fitting import SHAPE

if TYPE_CHECKING:
    from counterplay.contribution.sites.result import ConsortiumPlan, SitePlan

HURTS = 0.9
"""Probability of a negative exchange rate from which it is reported."""
BAD_FIT = 1.5


def summary(plan: ConsortiumPlan) -> str:
    """Measured; recommendation; sites; holding back; prices; warnings; what the number is not."""
    parts = [
        [_measured(plan)],
        [_recommendation(plan)],
        _site_lines(plan),
        _holding_back(plan),
        _prices(plan),
        warnings_of(plan),
        [_not(plan)],
    ]
    return "\n".join(line for part in parts for line in part)


def _measured(plan: ConsortiumPlan) -> str:
    points = plan.points
    owned = f"{int(points.owned.sum()):,} rows of {points.k} sites"
    if points.fits:
        return f"measured: {points.fits} fits on {owned}"
    return f"measured: {len(points.site)} points from files on {owned}"


def _recommendation(plan: ConsortiumPlan) -> str:
    total, name = int(plan.points.owned.sum()), plan.recommended
    goal = plan.request.targets.text
    level = f"{1 - plan.request.asked:.0%}"
    if name is None:
        return (
            "recommended: no joint plan; one model does not suit these sites, train apart or for "
            "groups that help each other"
        )
    chosen = plan.plans[name]
    late = [n for n in plan.points.names if chosen.short[n] > 5e-4 and not plan.promised[n]]
    if not plan.promised.any():
        gap = ", ".join(f"{n} stays {chosen.short[n]:.3f} short" for n in late) or "no promise"
        return f"recommended: pool everything; {gap}"
    if name == "share":
        share = plan.ray.share
        said = f"everybody brings {share:.0%} of its rows"
        source = {"rows": "", "points": " (from points)", "curves": " (read from the curves of "
                  "mixtures: no common share was measured)"}[plan.ray.source]  # fmt: skip
        said += source
    elif name == "stable":
        spare = float(np.nanmax(chosen.sure.to_numpy()))  # rounding up leaves a row or so
        less = "less" if spare < 1.5 else f"more than {np.ceil(spare):.0f} rows less"
        said = f"the stable plan: nobody who wants this confidence gains by bringing {less}"
    else:
        said = "the cheapest mixture"
    return f"recommended: {name}, {said}; {chosen.total:,} of {total:,} rows for {goal} at {level}"


def _site_lines(plan: ConsortiumPlan) -> list[str]:
    chosen = plan.plans[plan.recommended or "share"]
    lines = [] if plan.recommended else ["under a common share, which is not recommended:"]
    for name in plan.points.names:
        owned, rows = int(plan.owned[name]), int(chosen.rows[name])
        start = f"  {name}: {rows} of {owned} rows"
        if np.isnan(chosen.expected[name]):
            lines.append(f"{start}, contributes only")
            continue
        band = f"{chosen.expected[name]:.3f} ({chosen.low[name]:.3f} to {chosen.high[name]:.3f})"
        lines.append(f"{start}, {plan.points.metric.replace('_', ' ')} {band}, promise "
                     + _promise(plan, chosen, name))  # fmt: skip
    return lines


def _promise(plan: ConsortiumPlan, chosen: SitePlan, name: str) -> str:
    if not plan.promised[name]:
        return "not given"
    if chosen.short[name] > 5e-4:
        return f"missed by {chosen.short[name]:.3f}"
    if chosen.basis[name] == "verified":
        return f"yes, {_percent(chosen.probability[name], plan)}, verified"
    return f"yes, modelled, not verified by {name}'s own rows"


def _percent(probability: float, plan: ConsortiumPlan) -> str:
    """At most what the number of redraws can tell."""
    draws = plan.ray.losses.shape[1]
    return f"{probability:.0%}" if probability < 1.0 else f"over {1 - 1 / draws:.0%}"


def _holding_back(plan: ConsortiumPlan) -> list[str]:
    if plan.promises is None:
        return ["who would hold back was not measured (plans='share')"]
    if plan.recommended is None:
        return []
    name = plan.recommended or "share"
    chosen = plan.plans[name]
    interest = chosen.against_interest
    who = interest[interest >= 0.5].sort_values(ascending=False)
    if not len(who):
        first = f"nobody brings rows against its interest under the {name} plan"
    else:
        each = ", ".join(f"{site} {rows:.0f}" for site, rows in who.items())
        first = (
            f"under the {name} plan {who.sum():.0f} rows are brought against interest: {each}; "
            "write it into the contract or compensate"
        )
    lines = [first]
    sure = chosen.sure[chosen.sure >= 0.5]
    if len(sure):
        each = ", ".join(
            f"{site} {rows:.0f} (in some {chosen.perhaps[site]:.0f})" for site, rows in sure.items()
        )
        lines.append(f"could hold back and still be served in nearly all redraws: {each}")
    alone = plan.left_alone
    if alone is not None:
        late = int((alone.short > 1e-6).sum())
        lines.append(
            f"left alone the sites bring {alone.total:,} rows and {late} of "
            f"{len(plan.points.scored)} miss the promise"
        )
    lines += [f"no {key.replace('_', '-')} plan: {why}" for key, why in plan.why_not.items()]
    if plan.contract is not None:
        lines.append(
            f"a contract plan exists: {plan.contract.total:,} rows, nobody brings more than it "
            "would need alone"
        )
    return lines


def _prices(plan: ConsortiumPlan) -> list[str]:
    if plan.solved is None or plan.recommended is None:
        return []
    stability = plan.price_of_stability
    said = f"{stability:.2f}" if np.isfinite(stability) else "no stable plan"
    fairness = plan.price_of_fairness
    fair = f"{fairness:.2f}" if np.isfinite(fairness) else "no envy-free plan"
    known = plan.solved.envy_free
    if known is not None and not known.proved:
        fair += f" (best found, nothing below {known.bound / max(plan.solved.optimum, 1e-9):.2f})"
    lines = [f"prices against the cheapest mixture: stability {said}, fairness {fair}"]
    saved = plan.saved_by_a_point.dropna()
    saved = saved[saved >= 0.5].sort_values(ascending=False)
    for site, rows in list(saved.items())[:2]:
        lines.append(f"one point less for {site} saves {rows:.0f} rows of the cheapest plan")
    return lines


def reasons(plan: ConsortiumPlan) -> dict[str, str]:
    """For each plan that does not exist, one sentence."""
    if plan.promises is None:
        return dict.fromkeys(
            ("cheapest", "stable", "compensated", "contract", "envy_free", "left_alone"),
            "only the ray of common shares was measured; use plans='all'",
        )
    found: dict[str, str] = {}
    against = 0.0 if plan.compensated is None else float(plan.compensated.against_interest.sum())
    if plan.stable is None and against > 0.05:
        found["stable"] = (
            f"about {against:.1f} rows must be brought against their owners' interest to keep all "
            "promises"
        )
    elif plan.stable is None:
        found["stable"] = "none was found in which nobody who wants this confidence holds back"
    if plan.contract is None:
        found["contract"] = "to keep all promises somebody must bring more than it would need alone"
    if plan.envy_free is None:
        found["envy_free"] = "none was found within the caps"
    return found


def warnings_of(plan: ConsortiumPlan) -> list[str]:
    """Negative transfer, promises not given, flat scores, misfit, what was not measured."""
    lines = [*plan.points.notes]
    if plan.promises is not None and plan.curves is not None:
        lines += _transfer(plan) + _not_given(plan) + _fit(plan)
    lines += _flat(plan)
    return [f"warning: {line}" for line in lines]


def _transfer(plan: ConsortiumPlan) -> list[str]:
    curves, names = plan.curves, plan.points.names
    assert curves is not None
    assert plan.promises is not None
    lines = []
    for g, i in enumerate(curves.scored):
        if plan.promises.alone[g]:
            own, pooled = _measured_alone(plan, i)
            lines.append(
                f"{names[i]} is better off alone ({own:.2f} against {pooled:.2f} pooled): one "
                "model does not suit these sites"
            )
        hurts = (curves.samples[g, :, SHAPE:] < 0).mean(axis=0) > HURTS
        for j in np.flatnonzero(hurts & curves.measured_pairs()[g]):
            if j != i:
                lines.append(
                    f"rows of {names[j]} hurt {names[i]} (one is worth {curves.rates[g, j]:.2g} "
                    "own rows)"
                )
        if curves.reference[g] != i:
            lines.append(f"{names[i]}'s own rows do not help {names[i]}")
    return lines


def _measured_alone(plan: ConsortiumPlan, i: int) -> tuple[float, float]:
    """Best measured scores of site i: with its own rows only, and with nearly everything."""
    points = plan.points
    own = points.site == i
    share = points.rows[own] / points.owned
    others = np.delete(share, i, axis=1)
    score = points.score[own]
    alone = score[(others == 0).all(axis=1) & (share[:, i] >= 0.9 * share[:, i].max())]
    pooled = score[share.min(axis=1) >= 0.9 * share.min(axis=1).max()]
    return (float(alone.mean()) if alone.size else np.nan), float(pooled.mean())


def _not_given(plan: ConsortiumPlan) -> list[str]:
    promises, names = plan.promises, plan.points.names
    assert promises is not None
    assert plan.curves is not None
    sampled = plan.curves.sampled_errors(promises.cap) + plan.curves.shift
    total = int(promises.cap.sum())
    lines = []
    for g, i in enumerate(plan.curves.scored):
        if promises.promised[g] or promises.targets.relative[i]:
            continue
        score = plan.curves.score(g, np.quantile(sampled[g], [0.95, 0.5, 0.05]))
        wanted = promises.targets.least[i]
        if score[2] < wanted:
            lines.append(
                f"{promises.targets.named(i)} cannot be reached at {names[i]}: pooling all "
                f"{total:,} rows gives {score[1]:.2f} ({score[0]:.2f} to {score[2]:.2f}); try "
                "within=0.01"
            )
        else:
            half = (score[2] - score[0]) / 2
            lines.append(
                f"too few rows to verify {wanted:g} at {names[i]} (+-{half:.2f}); planned within "
                "0.01 of pooling instead"
            )
    return lines


def _fit(plan: ConsortiumPlan) -> list[str]:
    curves, names = plan.curves, plan.points.names
    assert curves is not None  # asked by the caller
    bad = [names[i] for g, i in enumerate(curves.scored) if curves.misfit[g] > BAD_FIT]
    lines = []
    if bad:
        lines.append(f"the curve fits badly at {', '.join(bad)}: its bands were widened")
    unknown = ~curves.measured_pairs()
    if unknown.any():
        g, j = (int(v) for v in np.argwhere(unknown)[0])
        lines.append(
            f"nothing was measured about what rows of {names[j]} are worth to "
            f"{names[curves.scored[g]]}: a prior guess stands in ({int(unknown.sum())} such pairs)"
        )
    if plan.points.axes_only and plan.points.k > 1:
        lines.append("no mixture of sites was tried: that rows of several sites add up is assumed")
    return lines


def _flat(plan: ConsortiumPlan) -> list[str]:
    points = plan.points
    if points.guess is None or points.metric != "accuracy":
        return []
    lines = []
    for i in points.scored:
        within = plan.request.targets.within[i]
        rows = points.rows.sum(axis=1)
        best = float(points.score[(points.site == i) & (rows >= 0.9 * rows.max())].mean())
        if abs(best - points.guess[i]) < (within if np.isfinite(within) else 0.01):
            lines.append(
                f"accuracy cannot tell plans apart at {points.names[i]} (guessing the common label "
                f"gives {points.guess[i]:.2f}); use balanced_accuracy or neg_log_loss"
            )
    return lines


def _not(plan: ConsortiumPlan) -> str:
    largest = plan.points.largest().sum() / max(plan.points.owned.sum(), 1)
    return (
        f"not covered: other models, or sites that change; more than {largest:.0%} of the rows was "
        "never tried (the rest of each curve is extrapolated)"
    )
