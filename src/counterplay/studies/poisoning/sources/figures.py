"""Figures of the study of contributors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.studies.poisoning.sources.cells import BUDGETS, HALVING_BUDGET
from counterplay.studies.poisoning.sources.data import NAMES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def accounts(frame: pd.DataFrame) -> Figure:
    """Certified accuracy over what an attacker controls, blocks by row (dashed; units are rows)
    and by source (solid; units are accounts, strata or calling lists). Mean over splits; bars are
    exact 95 % intervals of the first split, beside the points. Grey: the pipeline without
    partition."""
    table = frame[frame.part == "table"]
    names = [name for name in NAMES if (table.data == name).any()]
    figure, axes = panels(len(names), width=3.2, height=3.6)
    for ax, name in zip(axes, names):
        for i, by in enumerate(("row", "source")):
            part = table[(table.data == name) & (table.by == by)].sort_values("split")
            means = np.array([part[f"at_{t}"].mean() for t in BUDGETS])
            first = part.iloc[0]
            ends = np.array([[first[f"at_{t}"] - first[f"low_{t}"],
                              first[f"high_{t}"] - first[f"at_{t}"]] for t in BUDGETS])  # fmt: skip
            ax.errorbar(
                np.array(BUDGETS) + 0.3 * i, means, yerr=ends.T, marker="o", markersize=3,
                linestyle=("--", "-")[i], color=PALETTE[i], linewidth=1.2, label=f"by {by}",
            )  # fmt: skip
        plain = table[(table.data == name) & (table.by == "row")].plain.mean()
        ax.axhline(plain, color="grey", linewidth=1)
        ax.set(xlabel="units an attacker controls", title=NAMES[name], ylim=(0.6, 1.0))
    axes[0].set_ylabel("certified accuracy")
    axes[0].legend(fontsize=8)
    return figure


def threshold(frame: pd.DataFrame) -> Figure:
    """Certified precision, recall and F1 of the positive class over the number of accounts, mean
    over splits: majority dashed, vote threshold solid, dotted what one set of blocks attains. The
    threshold was chosen for certified F1 at five accounts on one half of the test rows; shown is
    the other half. Grey: the pipeline without partition, no certificate."""
    table = frame[(frame.part == "table") & frame.data.isin(("sms", "tumours"))]
    name = str(table.data.iloc[0])
    plain = table[table.by == "row"]
    curves = [json.loads(text) for text in table[table.by == "source"].curves]
    figure, axes = panels(3, width=3.6, height=3.4)
    for ax, metric in zip(axes, ("precision", "recall", "f1")):
        for i, rule in enumerate(("majority", "chosen")):
            kept, real = (
                np.mean([c[rule][f"{metric} {kind}"] for c in curves], axis=0)
                for kind in ("certified", "attained")
            )
            ax.plot(kept, ("--", "-")[i], color=PALETTE[i], label=("majority", "threshold")[i])
            ax.plot(real, ":", color=PALETTE[i])
        ax.axhline(plain[f"plain_{metric}"].mean(), color="grey", linewidth=1)
        ax.set(xlabel="accounts an attacker controls", title=metric, ylim=(0, 1.02))
        ax.locator_params(axis="x", integer=True)
    axes[0].set_ylabel(f"{NAMES[name]}, certified")
    axes[0].legend(fontsize=8)
    return figure


def units(frame: pd.DataFrame) -> Figure:
    """Certified accuracy by number of accounts, if an account sends 1, 5 or 20 rows: blocks by row
    (dashed) lose everything as soon as three accounts of twenty rows are involved; blocks by
    account (solid) do not ask how many rows an account sends."""
    table = frame[(frame.part == "table") & (frame.split == 0)]
    name = "sms" if (table.data == "sms").any() else "tumours"
    table = table[table.data == name]
    figure, (ax,) = panels(1)
    row = json.loads(table[table.by == "row"].iloc[0].curve)
    source = json.loads(table[table.by == "source"].iloc[0].curve)
    most = 12
    for i, size in enumerate((1, 5, 20)):
        values = [row[t * size] if t * size < len(row) else 0.0 for t in range(most + 1)]
        ax.step(range(most + 1), values, "--", where="post", color=PALETTE[i + 1],
                label=f"blocks by row, accounts of {size} row{'s' * (size > 1)}")  # fmt: skip
    kept = [source[t] if t < len(source) else 0.0 for t in range(most + 1)]
    ax.step(range(most + 1), kept, where="post", color=PALETTE[0], label="blocks by account")
    ax.set(xlabel="accounts an attacker controls", ylabel=f"{NAMES[name]}, certified accuracy",
           ylim=(0, 1.02))  # fmt: skip
    ax.legend(fontsize=8)
    return figure


def blocks(frame: pd.DataFrame) -> Figure:
    """Certified F1 of spam by number of blocks and number of accounts, on the held-out quarter of
    the training rows. Crosses: the best number of blocks at each budget. The dots on the line of
    ten accounts are candidates that successive halving fitted in part (small), or in full (large);
    the ring is its choice."""
    runs = frame[frame.part == "blocks"]
    names = [name for name in ("sms", "spambase") if (runs.data == name).any()]
    if not names:
        return _empty("numbers of blocks are compared at full scale")
    figure, axes = panels(len(names), width=5.0)
    for ax, name in zip(axes, names):
        part = runs[runs.data == name].sort_values("blocks")
        table = np.array([json.loads(text) for text in part.certified_f1])
        image = ax.imshow(table.T, origin="lower", aspect="auto", cmap="viridis", vmin=0, vmax=1)
        counts = [int(k) for k in part.blocks]
        ax.plot(table.argmax(axis=0), range(table.shape[1]), "x", color="white")
        own = frame[(frame.part == "halving") & (frame.data == name) & (frame.metric == "f1")]
        for count, fitted in json.loads(own.iloc[0].path):
            ax.plot(counts.index(count), HALVING_BUDGET, "o", color=PALETTE[1],
                    markersize=9 if fitted == count else 4)  # fmt: skip
        ax.plot(counts.index(int(own.iloc[0].best)), HALVING_BUDGET, "o", markersize=15,
                markerfacecolor="none", markeredgecolor=PALETTE[1])  # fmt: skip
        ax.set_xticks(range(len(counts)), [str(k) for k in counts])
        ax.set(xlabel="blocks", ylabel="accounts an attacker controls", title=NAMES[name])
        ax.locator_params(axis="y", integer=True)
        ax.grid(visible=False)
        figure.colorbar(image, ax=ax, label="certified F1")
    return figure


def leak(frame: pd.DataFrame) -> Figure:
    """One row with the age '39 years' among 8,000 rows of Adult, 40 blocks. Grey: radii of all
    predictions; coloured: predictions that flip although they are certified for one row or more,
    when blocks are slices of the frame (the column becomes text in every block). With a frozen
    schema none flips."""
    runs = frame[frame.part == "leak"]
    if not len(runs):
        return _empty("the leak of a container is measured at full scale")
    row = runs.iloc[0]
    figure, (ax,) = panels(1)
    bins = [k - 0.5 for k in range(22)]
    ax.hist(json.loads(row.naive_all), bins=bins, color="lightgrey", label="all predictions")
    ax.hist(json.loads(row.naive_radii), bins=bins, color=PALETTE[1],
            label=f"flipped, blocks sliced from the frame: {int(row.naive_flips)}")  # fmt: skip
    ax.plot([], [], " ", label=f"flipped, frozen schema: {int(row.frozen_flips)}")
    ax.set(xlabel="rows that the prediction is certified for", ylabel="predictions", yscale="log")
    ax.legend(fontsize=8)
    return figure


def together(frame: pd.DataFrame) -> Figure:
    """Loss of accuracy that one poisoned training set can cause: certified per decision (dashed),
    certified for all test rows together (solid) and attained by a real set of blocks (dotted). The
    truth lies between solid and dotted; a gap between dashed and solid is what the collective
    certificate gains."""
    runs = frame[frame.part == "collective"]
    figure, axes = panels(len(runs), width=4.5)
    for ax, (_, row) in zip(axes, runs.iterrows()):
        for i, (kind, style) in enumerate((("per_point", "--"), ("together", "-"),
                                           ("attained", ":"))):  # fmt: skip
            values = [row.per_point_0 - row[f"{kind}_{t}"] for t in BUDGETS]
            label = {"per_point": "certified per decision", "together": "certified together",
                     "attained": "attained"}[kind]  # fmt: skip
            ax.plot(BUDGETS, values, style, marker="o", markersize=3, color=PALETTE[i], label=label)
        ax.set(
            xlabel="accounts an attacker controls",
            ylabel="accuracy lost",
            title=NAMES[row.data],
            xticks=BUDGETS[2:],
        )
    axes[0].legend(fontsize=8)
    return figure


def attack(frame: pd.DataFrame) -> Figure:
    """Share of 40 decisions that are wrong after an attack, from below, and that are not
    certified, from above (dashed). Plain pipeline: rows of the pool with their own labels, and
    copies of the test row with a wrong label; nothing bounds it from above. The same pipeline in
    25 blocks: attacked with wrong labels (solid), at most what is not certified."""
    runs = frame[frame.part == "attack"]
    if not len(runs):
        return _empty("attacks are made at full scale")
    figure, axes = panels(len(runs), width=4.8)
    for ax, (_, row) in zip(axes, runs.iterrows()):
        lines: dict[str, tuple[str, dict[str, Any]]] = {
            "wrong_label": ("plain, wrong labels", {"color": PALETTE[1]}),
            "true_rows": ("plain, true rows", {"color": PALETTE[2]}),
            "guarded": ("in 25 blocks, wrong labels", {"color": PALETTE[0]}),
            "open": ("in 25 blocks, not certified", THEORY),
        }
        for kind, (label, look) in lines.items():
            ax.step(range(11), [row[f"{kind}_{t}"] for t in range(11)], where="post", label=label,
                    **look)  # fmt: skip
        ax.set(xlabel="rows added", ylabel="share of decisions", title=NAMES[row.data],
               ylim=(0, 1.02))  # fmt: skip
    axes[0].legend(fontsize=8)
    return figure


def _empty(text: str) -> Figure:
    figure, (ax,) = panels(1, height=1.2)
    ax.axis("off")
    ax.text(0.5, 0.5, text, ha="center")
    return figure
