"""What manipulation graphs cost: samples, feedback, unknown graphs, noise.

Source: spec 03 section 5, experiments 1 to 5.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import SOA
from counterplay.core.stats import mean_interval
from counterplay.strategic import (
    AgnosticCoverHedge,
    BiasedMajorityVote,
    ExplicitGraphClass,
    GraphGame,
    HedgeOverH,
    ManipulationGraph,
    Mode,
    ProductGraphClass,
    Red2OnlineFI,
    Red2OnlinePMF,
    UnknownGraphOnline,
    UnknownGraphPACRealizable,
    consistent_graph,
    finite_erm,
    graph_bounds,
    graph_instances,
    graph_loss,
    probe,
    proxy_graph,
    proxy_loss,
    stackelberg_regret,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TRAP = {"n": 40, "k": 6, "g": 64}
_TRAP_SIZES = (5, 10, 20, 40, 80, 160)
_METHODS = {"small": "fewest arcs", "proxy": "proxy loss", "any": "any consistent graph"}


def _int(params: Params, name: str) -> int:
    return int(params[name] or 0)


def _errorbars(ax: Axes, x: Any, groups: Any, color: str, label: str, marker: str = "o") -> None:
    """Means with 95 % intervals, one per group of values."""
    centres = np.array([float(np.mean(group)) for group in groups])
    spans = [mean_interval(group) for group in groups]
    low = centres - [span.low for span in spans]
    high = np.array([span.high for span in spans]) - centres
    bars = np.maximum(np.stack([low, high]), 0)
    ax.errorbar(x, centres, yerr=bars, fmt=marker, color=color, label=label, capsize=2, ms=4)


# How many more labels manipulation costs.


def _sample_grid(scale: Scale) -> list[Params]:
    batches, runs = (5, 40) if scale == "quick" else (20, 200)
    pairs = [(k, 1) for k in (2, 4, 16, 64, 256)] + [(k, 2) for k in (2, 4, 16)]
    return [
        {"k": k, "d": d, "runs": runs, "replicate": i} for k, d in pairs for i in range(batches)
    ]


_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)


def _sample_cell(params: Params, seed: int) -> Record:
    k, d, runs = (_int(params, name) for name in ("k", "d", "runs"))
    instance = graph_instances.binary_code_instance(k, d)
    centres = np.array(instance.expected["centres"])
    codes = instance.graph.induced(instance.hypotheses.labels)[:, centres]
    rules = FiniteClass.from_matrix(codes)
    still = ManipulationGraph.from_lists([[] for _ in centres])
    rng = np.random.default_rng(seed)
    record: dict[str, float | int] = {}
    for i, share in enumerate(_SHARES):
        T = max(1, round(share * centres.size))
        losses, naive = [], []
        for _ in range(runs):
            target = codes[int(rng.integers(len(codes)))]
            x = rng.integers(0, centres.size, size=T)
            best = finite_erm(rules, x, target[x], still)[0]
            losses.append(float((codes[best] != target).mean()))
            naive.append(float((codes[0] != target).mean()))  # all rules look alike unmoved
        record[f"loss{i}"], record[f"naive{i}"] = float(np.mean(losses)), float(np.mean(naive))
        record[f"T{i}"] = T
    return record


def _law(s: int, T: int) -> float:
    """Expected error of any rule that fits T random centres out of s."""
    return 0.5 * (1 - 1 / s) ** T


def _sample_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    inside = total = 0
    naive = []
    for (k, d), part in frame.groupby(["k", "d"]):
        s = int(d) * int(math.log2(int(k)))
        for i in range(len(_SHARES)):
            law = _law(s, int(part[f"T{i}"].iloc[0]))
            error = math.sqrt(law / (len(part) * int(part["runs"].iloc[0])))  # variance <= mean
            inside += abs(float(part[f"loss{i}"].mean()) - law) <= 4 * error
            total += 1
            naive.append(float(part[f"naive{i}"].mean()))
    return [
        Verdict(
            "03.03",
            "Test error of strategic ERM equals (1 - 1/s)^T / 2 with s = d log2 k.",
            f"{inside} of {total} points within four standard errors",
            "all",
            inside == total,
        ),
        Verdict(
            "03.03",
            "A learner that ignores moving stays at error 1/2 however many labels it gets.",
            f"{min(naive):.3f} to {max(naive):.3f}",
            "0.5 +- 0.1",
            max(abs(v - 0.5) for v in naive) < 0.1,
        ),
    ]


def _sample_figure(frame: pd.DataFrame) -> Figure:
    """Test error after people have moved, against labels (left) and labels per bit d log2 k
    (right): the curves collapse. Points: mean with 95 % interval; dashed: (1 - 1/s)^T / 2.
    """
    figure, (left, right) = panels(2)
    for j, ((k, d), part) in enumerate(frame.groupby(["k", "d"])):
        s, color = int(d) * int(math.log2(int(k))), (*PALETTE, "#999999")[j]
        T = np.array([int(part[f"T{i}"].iloc[0]) for i in range(len(_SHARES))])
        groups = [part[f"loss{i}"] for i in range(len(_SHARES))]
        label = f"k = {k}, d = {d}"
        _errorbars(left, T, groups, color, label, "os^v"[j % 4])
        _errorbars(right, T / s, groups, color, label, "os^v"[j % 4])
        smooth = np.linspace(T[0], T[-1], 60)
        left.plot(smooth, 0.5 * (1 - 1 / s) ** smooth, **THEORY)
    x = np.linspace(0, 4, 100)
    right.plot(x, 0.5 * np.exp(-x), label="exp(-T/s) / 2", **THEORY)
    for ax in (left, right):
        ax.axhline(0.5, color="#777777", lw=1)
        ax.text(0.98, 0.5, "ignoring moves", va="bottom", ha="right", fontsize=8,
                transform=ax.get_yaxis_transform())  # fmt: skip
        ax.set(ylabel="test error", ylim=(-0.02, 0.56))
    left.set(xlabel="labels T", title="Error against labels")
    right.set(xlabel="labels per bit, T / (d log2 k)", title="The same, per bit")
    right.legend(fontsize=7, ncol=2)
    return figure


# What hidden features cost.


def _feedback_grid(scale: Scale) -> list[Params]:
    cells: list[Params] = [
        {"kind": kind, "k": k, "r": 0}
        for kind in ("fi", "pmf", "baseline")
        for k in (2, 4, 8, 16, 32, 64)
    ]
    traps = (4, 8, 12, 16, 20, 24) if scale == "quick" else (4, 8, 12, 16, 20, 24, 28, 32, 36, 40)
    more: list[Params] = [{"kind": "trap", "k": 4, "r": r} for r in traps]
    return cells + more


def _feedback_cell(params: Params, seed: int) -> Record:
    k, kind = _int(params, "k"), params["kind"]
    if kind == "trap":
        trap = graph_instances.halving_trap(_int(params, "r"), k)
        game = GraphGame(trap.graph, Mode.PMF_X)
        vote = BiasedMajorityVote(trap.hypotheses, k)
        learner = Red2OnlinePMF(SOA(trap.hypotheses), k)
        reduced = sum(int(learner.accepts(np.array([x]))[0]) for x in trap.nodes)
        mistakes = game.play(vote, trap.nodes, trap.labels).mistakes
        return {"mistakes": mistakes, "reduction": reduced, "size": len(trap.hypotheses)}
    if kind == "fi":
        instance = graph_instances.binary_code_instance(k)
        played = instance.adversary().play(
            Red2OnlineFI(SOA(instance.hypotheses)), GraphGame(instance.graph, Mode.FI)
        )
    else:
        instance = graph_instances.star_singletons(k)
        hidden: Any = (
            Red2OnlinePMF(SOA(instance.hypotheses), k)
            if kind == "pmf"
            else BiasedMajorityVote(instance.hypotheses, k)
        )
        played = instance.adversary().play(hidden, GraphGame(instance.graph, Mode.PMF_X))
    return {"mistakes": played.mistakes, "reduction": -1, "size": len(instance.hypotheses)}


def _feedback_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    parts = {kind: part.set_index("k")["mistakes"] for kind, part in frame.groupby("kind")}
    fi_right = all(m == int(math.log2(int(k))) for k, m in parts["fi"].items())
    pmf_right = all(m == k for k, m in parts["pmf"].items())
    trap = frame[frame["kind"] == "trap"]
    return [
        Verdict(
            "03.09",
            "Known graph: exactly log2 k mistakes on the code instance.",
            ", ".join(str(int(m)) for m in parts["fi"]),
            "1, 2, 3, 4, 5, 6",
            fi_right,
        ),
        Verdict(
            "03.09",
            "Hidden features: exactly k mistakes on the two-way star.",
            ", ".join(str(int(m)) for m in parts["pmf"]),
            "2, 4, 8, 16, 32, 64",
            pmf_right,
        ),
        Verdict(
            "03.12",
            "Counting hypotheses costs r mistakes on the trap, the reduction with SOA none.",
            f"baseline {int(trap['mistakes'].max())} at most, "
            f"reduction {int(trap['reduction'].max())}",
            "r and 0",
            bool((trap["mistakes"] == trap["r"]).all() and (trap["reduction"] == 0).all()),
        ),
    ]


def _feedback_figure(frame: pd.DataFrame) -> Figure:
    """Left: mistakes forced by the adversaries against the number of moves k (log-log), with the
    lower (dotted) and upper (dashed) bounds. Right: a class of Littlestone dimension 2 on which
    counting hypotheses fails.
    """
    figure, (left, right) = panels(2)
    k = np.array([2, 4, 8, 16, 32, 64])
    names = {"fi": "graph known", "pmf": "features hidden", "baseline": "features hidden, majority"}
    for (kind, label), color, marker in zip(names.items(), PALETTE, "os^"):
        part = frame[frame["kind"] == kind].sort_values("k")
        left.plot(
            part["k"],
            part["mistakes"],
            marker,
            color=color,
            label=label,
            ms=6 if kind != "baseline" else 4,
        )
    fi = [graph_bounds.red2online_fi_mistakes(1, int(v)) for v in k]
    pmf = [graph_bounds.red2online_pmf_mistakes(1, int(v)) for v in k]
    left.plot(k, fi, label="upper bounds", **THEORY)
    left.plot(k, pmf, **THEORY)
    dotted = {**THEORY, "linestyle": ":"}
    left.plot(k, np.log2(k), label="lower bounds", **dotted)
    left.plot(k[1:], k[1:] - 1, **dotted)
    left.set(xscale="log", yscale="log", xlabel="moves per person k", ylabel="mistakes",
             title="Seeing people first is worth a factor k / log k")  # fmt: skip
    left.set_xticks(k, [str(v) for v in k])
    left.minorticks_off()
    left.legend(fontsize=8)
    trap = frame[frame["kind"] == "trap"].sort_values("r")
    x = np.log(trap["size"])
    right.plot(x, trap["mistakes"], "o", color=PALETTE[2], label="biased majority")
    right.plot(x, trap["reduction"], "s", color=PALETTE[1], label="reduction with SOA")
    sizes = trap["size"].astype(int)
    right.plot(x, [graph_bounds.biased_majority_mistakes(n, 4) for n in sizes],
               label="its bound, about (k+2) ln |H|", **THEORY)  # fmt: skip
    right.set(xlabel="ln |H|", ylabel="mistakes", title="Trap of dimension 2, k = 4")
    right.legend(fontsize=8)
    return figure


# Learning an unknown graph from one move per person.


def _batch_grid(scale: Scale) -> list[Params]:
    runs, pairs = (20, 10) if scale == "quick" else (100, 60)
    cells: list[Params] = [{"kind": "trap", "replicate": i} for i in range(runs)]
    more: list[Params] = [{"kind": "pairs", "replicate": i} for i in range(pairs)]
    return cells + more


def _batch_cell(params: Params, seed: int) -> Record:
    rng = np.random.default_rng(seed)
    record: dict[str, float] = {
        f"{method}{T}": math.nan for method in _METHODS for T in _TRAP_SIZES
    } | {"low": math.nan, "high": math.nan}
    if params["kind"] == "pairs":
        low, high = [], []
        for _ in range(50):
            k = int(rng.integers(1, 5))
            truth, other = _random_graph(rng, 6, k), _random_graph(rng, 6, k)
            loss = graph_loss(other, truth)
            if loss > 0:
                low.append(k * proxy_loss(other, truth, k) / loss)
                high.append(proxy_loss(other, truth, k) / loss)
        return record | {"low": min(low), "high": max(high)}
    trap = graph_instances.superset_trap(**_TRAP, random_state=rng)
    assert isinstance(trap.graphs, ExplicitGraphClass)
    x = rng.integers(0, _TRAP["n"], size=_TRAP_SIZES[-1])
    v = probe(trap.graph, x, rng)
    learner = UnknownGraphPACRealizable(trap.hypotheses, trap.graphs)
    for T in _TRAP_SIZES:
        small = learner.fit(x[:T], v[:T], np.ones(T)).graph
        anything = trap.graphs.graph(consistent_graph(trap.graphs, x[:T], v[:T]))
        proxy = proxy_graph(trap.graphs, x[:T], v[:T])[0]
        for name, graph in (("small", small), ("any", anything), ("proxy", proxy)):
            record[f"{name}{T}"] = graph_loss(graph, trap.graph)
    return record


def _random_graph(rng: np.random.Generator, n: int, k: int) -> ManipulationGraph:
    lists = []
    for x in range(n):
        others = np.delete(np.arange(n), x)
        lists.append(rng.choice(others, size=int(rng.integers(0, k + 1)), replace=False).tolist())
    return ManipulationGraph.from_lists(lists)


def _batch_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    trap, pairs = frame[frame["kind"] == "trap"], frame[frame["kind"] == "pairs"]
    small, anything = trap["small160"], trap["any160"]
    return [
        Verdict(
            "03.15",
            "After 160 moves the consistent graph with fewest arcs is nearly right.",
            f"mean loss {float(small.mean()):.4f}",
            "<= 0.01",
            float(small.mean()) <= 0.01,
        ),
        Verdict(
            "03.15",
            "Consistency alone picks a graph with too many arcs.",
            f"mean loss {mean_interval(anything)}",
            ">= 0.9",
            float(anything.mean()) >= 0.9,
        ),
        Verdict(
            "03.17",
            "Proxy loss / graph loss lies between 1/k and 3 for all random pairs.",
            f"k * ratio from {float(pairs['low'].min()):.3f}, "
            f"ratio up to {float(pairs['high'].max()):.3f}",
            ">= 1 and <= 3",
            float(pairs["low"].min()) >= 1 - 1e-9 and float(pairs["high"].max()) <= 3 + 1e-9,
        ),
    ]


def _batch_figure(frame: pd.DataFrame) -> Figure:
    """Left: share of nodes whose neighbourhood is learned wrong, against the number of people
    probed (40 nodes, 64 candidate graphs, mean and 95 % interval). Right: smallest and largest
    ratio of proxy to graph loss per batch of 50 random pairs of graphs, with the proved limits.
    """
    figure, (left, right) = panels(2)
    trap, pairs = frame[frame["kind"] == "trap"], frame[frame["kind"] == "pairs"]
    shifts = {"small": 0.97, "proxy": 1.03, "any": 1.0}
    for (name, label), color, marker in zip(_METHODS.items(), PALETTE, "os^"):
        groups = [trap[f"{name}{T}"] for T in _TRAP_SIZES]
        _errorbars(left, shifts[name] * np.array(_TRAP_SIZES), groups, color, label, marker)
    T = np.linspace(90, 170, 30)
    bound = 2 * _TRAP["k"] * math.log(_TRAP["g"] / 0.05) / T
    left.plot(T, bound, label="certificate, fewest arcs", **THEORY)
    left.set(xscale="log", xlabel="people probed T", ylabel="graph loss", ylim=(-0.03, 1.08),
             title="Which graph explains the moves?")  # fmt: skip
    left.set_xticks(_TRAP_SIZES, [str(v) for v in _TRAP_SIZES])
    left.minorticks_off()
    left.legend(fontsize=8, loc="center left")
    batch = np.arange(len(pairs))
    right.plot(batch, pairs["low"], "o", color=PALETTE[0], label="k proxy / loss, smallest")
    right.plot(batch, pairs["high"], "s", color=PALETTE[1], label="proxy / loss, largest")
    right.axhline(1, label="limits", **THEORY)
    right.axhline(3, **THEORY)
    right.set(
        xlabel="batch of 50 pairs", ylabel="ratio", ylim=(0, 3.4), title="Proxy loss sandwich"
    )
    right.legend(fontsize=8)
    return figure


# Unknown graph, online.


def _online_grid(scale: Scale) -> list[Params]:
    runs = 20 if scale == "quick" else 100
    cells: list[Params] = [
        {"kind": "product", "blocks": b, "eager": eager, "replicate": i}
        for b in (1, 2, 4, 6)
        for eager in (True, False)
        for i in range(runs)
    ]
    literal: list[Params] = [
        {"kind": kind, "blocks": T, "eager": False, "replicate": 0}
        for kind in ("literal", "repaired")
        for T in (10, 30, 100, 300, 1000)
    ]
    return cells + literal


def _online_cell(params: Params, seed: int) -> Record:
    if params["kind"] != "product":
        instance, T = graph_instances.majority_graph_counterexample(), _int(params, "blocks")
        assert instance.graphs is not None
        learner = UnknownGraphOnline(
            SOA(instance.hypotheses), instance.graphs, eager=False,
            literal=params["kind"] == "literal",
        )  # fmt: skip
        played = GraphGame(instance.graph, Mode.UG).play(learner, [0] * T, [1] * T)
        return {"a": learner.types["a"], "other": played.mistakes, "bound_a": 0.0, "bound": 0.0}
    rng, b = np.random.default_rng(seed), _int(params, "blocks")
    graphs, truth = _random_product(rng, b, candidates=10)
    rows = FiniteClass.from_matrix(rng.random((8, b + 6)) < 0.4).deduplicated().unique
    learner = UnknownGraphOnline(SOA(rows), graphs, 2, eager=bool(params["eager"]))
    labels = truth.induced(rows.labels[:1])[0]
    game = GraphGame(truth, Mode.UG, tie=lambda options: int(rng.choice(options)))
    for _ in range(12):
        for x in rng.permutation(truth.n).tolist():
            game.round(learner, x, int(labels[x]))
    bound = graph_bounds.red2online_pmf_mistakes(SOA(rows).mistake_bound, 4)
    types = learner.types
    return {
        "a": types["a"],
        "other": types["b"] + types["c"],
        "bound_a": graphs.log_size / math.log(2),
        "bound": bound,
    }


def _random_product(
    rng: np.random.Generator, blocks: int, candidates: int
) -> tuple[ProductGraphClass, ManipulationGraph]:
    """Each of the first nodes moves to at most two of six others, in one of ten ways."""
    chosen = []
    for x in range(blocks):
        lists: list[dict[int, tuple[int, ...]]] = []
        while len(lists) < candidates:
            size = int(rng.integers(1, 3))
            targets = tuple(sorted(int(z) for z in blocks + rng.permutation(6)[:size]))
            if {x: targets} not in lists:
                lists.append({x: targets})
        chosen.append(((x,), tuple(lists)))
    graphs = ProductGraphClass(blocks + 6, tuple(chosen))
    return graphs, graphs.build([int(i) for i in rng.integers(0, candidates, size=blocks)])


def _online_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    product = frame[frame["kind"] == "product"]
    literal = frame[frame["kind"] == "literal"]
    repaired = frame[frame["kind"] == "repaired"]
    return [
        Verdict(
            "03.13",
            "Mistakes that halve the graphs stay below log2 |G|, the others below their bound.",
            f"largest shares {float((product['a'] / product['bound_a']).max()):.2f} and "
            f"{float((product['other'] / product['bound'].clip(lower=1)).max()):.2f} of the bounds",
            "<= 1",
            bool((product["a"] <= product["bound_a"] + 1e-9).all())
            and bool((product["other"] <= product["bound"] + 1e-9).all()),
        ),
        Verdict(
            "03.14",
            "As printed the algorithm errs in every round on three nodes, repaired once.",
            f"{int(literal['other'].max())} of 1000 and {int(repaired['other'].max())}",
            "1000 and 1",
            bool((literal["other"] == literal["blocks"]).all() and (repaired["other"] == 1).all()),
        ),
    ]


def _online_figure(frame: pd.DataFrame) -> Figure:
    """Left: mistakes against the number of candidate graphs (10 to a million), split into those
    that halve the candidates and the others (mean and 95 % interval). Right: the algorithm as
    printed and repaired on the three-node counterexample.
    """
    figure, (left, right) = panels(2)
    product = frame[frame["kind"] == "product"]
    styles = [
        (True, "a", "halving, filter always"),
        (True, "other", "other, filter always"),
        (False, "a", "halving, filter on mistakes"),
        (False, "other", "other, filter on mistakes"),
    ]
    for (eager, column, label), color, marker in zip(styles, PALETTE, "osov"):
        part = product[product["eager"] == eager].groupby("blocks")
        x = np.array([float(group["bound_a"].iloc[0]) for _, group in part])
        shift = 0.25 if not eager else -0.25
        _errorbars(left, x + shift, [group[column] for _, group in part], color, label, marker)
    line = np.array([0, 20])
    left.plot(line, line, label="log2 |G|", **THEORY)
    left.set(xlabel="log2 of the number of graphs", ylabel="mistakes", ylim=(-0.3, 9),
             title="More graphs, hardly more mistakes")  # fmt: skip
    left.legend(fontsize=8)
    for kind, color, marker in (("literal", PALETTE[3], "o"), ("repaired", PALETTE[0], "s")):
        part = frame[frame["kind"] == kind].sort_values("blocks")
        label = "as printed" if kind == "literal" else "repaired"
        right.plot(part["blocks"], part["other"], marker + "-", color=color, label=label)
    right.set(xscale="log", yscale="log", xlabel="rounds", ylabel="mistakes",
              title="Three nodes, three graphs")  # fmt: skip
    right.legend()
    return figure


# No rule is right about everybody.

_FLIPS = 12


def _noise_grid(scale: Scale) -> list[Params]:
    sizes, runs = ((50, 100, 200), 8) if scale == "quick" else ((100, 400, 1600), 20)
    return [{"T": T, "replicate": i} for T in sizes for i in range(runs)]


def _noise_cell(params: Params, seed: int) -> Record:
    rng, T = np.random.default_rng(seed), _int(params, "T")
    rules = FiniteClass.from_matrix(rng.random((8, 6)) < 0.4).deduplicated().unique
    while SOA(rules).mistake_bound != 2:
        rules = FiniteClass.from_matrix(rng.random((8, 6)) < 0.4).deduplicated().unique
    graph = _random_graph(rng, 6, 2)
    nodes = rng.integers(0, 6, size=T)
    y = (graph.induced(rules.labels[:1])[0][nodes] ^ (rng.random(T) < 0.25)).astype(int)
    game = GraphGame(graph, Mode.FI)
    cover = AgnosticCoverHedge(SOA(rules), M=_FLIPS, horizon=T, random_state=rng)
    losses = []
    for x, label in zip(nodes.tolist(), y.tolist()):
        game.round(cover, x, label)
        losses.append(abs(cover.probability - label))
    hedge = game.play(HedgeOverH(rules, T, random_state=rng), nodes, y)
    made = (hedge["yhat"] != hedge["y"]).astype(float)
    return {
        "cover": stackelberg_regret(losses, nodes.tolist(), y, rules, graph),
        "hedge": stackelberg_regret(made, nodes.tolist(), y, rules, graph),
        "bound": graph_bounds.cover_hedge_regret(T, _FLIPS),
        "states": cover.n_states,
    }


def _noise_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    share = frame["cover"] / frame["bound"]
    return [
        Verdict(
            "03.20",
            "Expected regret of cover hedge is below sqrt(T/2 ln N) on every stream.",
            f"largest share of the bound {float(share.max()):.2f}; at most "
            f"{int(frame['states'].max())} states",
            "<= 1",
            bool((share <= 1).all()),
        )
    ]


def _noise_figure(frame: pd.DataFrame) -> Figure:
    """Regret against the best rule of the class when a quarter of the labels is wrong (mean and
    95 % interval): hedge over all rules needs the list of rules, cover hedge only an online
    learner. Dashed: the bound of cover hedge.
    """
    figure, (ax,) = panels(1)
    groups = frame.groupby("T")
    T = np.array([int(t) for t, _ in groups])
    _errorbars(ax, 0.97 * T, [g["cover"] for _, g in groups], PALETTE[0], "cover hedge")
    _errorbars(ax, 1.03 * T, [g["hedge"] for _, g in groups], PALETTE[1], "hedge over rules", "s")
    ax.plot(T, [float(g["bound"].iloc[0]) for _, g in groups], label="bound", **THEORY)
    ax.set(
        xscale="log", xlabel="rounds T", ylabel="regret", title="A quarter of the labels is noise"
    )
    ax.set_xticks(T, [str(t) for t in T])
    ax.minorticks_off()
    ax.legend()
    return figure


STUDIES = (
    Study(
        name="graph-samples",
        title="How many more labels manipulation costs",
        question=(
            "When everybody has k moves, how many labels does strategic ERM need? Error falls with "
            "labels per bit d log2 k; a learner that ignores moving never improves."
        ),
        claims=("03.03",),
        grid=_sample_grid,
        cell=_sample_cell,
        verdicts=_sample_verdicts,
        figures={"samples": _sample_figure},
    ),
    Study(
        name="graph-feedback",
        title="What hidden features cost on a graph",
        question=(
            "Seeing people before the decision costs log k mistakes per dimension, seeing only "
            "where they went costs k. And counting hypotheses is not enough: on a class of "
            "dimension 2 it errs without end while the reduction does not err at all."
        ),
        claims=("03.09", "03.12"),
        grid=_feedback_grid,
        cell=_feedback_cell,
        verdicts=_feedback_verdicts,
        figures={"feedback": _feedback_figure},
    ),
    Study(
        name="graph-unknown",
        title="Learning an unknown graph from one move per person",
        question=(
            "Many candidate graphs contain everything that was seen. Does asking for few arcs find "
            "the right one? Yes, while any consistent graph gets worse with more data."
        ),
        claims=("03.15", "03.17"),
        grid=_batch_grid,
        cell=_batch_cell,
        verdicts=_batch_verdicts,
        figures={"graphs": _batch_figure},
    ),
    Study(
        name="graph-unknown-online",
        title="Deciding while the graph is unknown",
        question=(
            "How many mistakes do up to a million candidate graphs cost? Hardly any; but the "
            "algorithm as printed in the source errs for ever on three nodes."
        ),
        claims=("03.13", "03.14"),
        grid=_online_grid,
        cell=_online_cell,
        verdicts=_online_verdicts,
        figures={"online": _online_figure},
    ),
    Study(
        name="graph-noise",
        title="Regret when no rule is right about everybody",
        question=(
            "With a quarter of the labels wrong, is the regret against the best rule sublinear and "
            "below its bound?"
        ),
        claims=("03.20",),
        grid=_noise_grid,
        cell=_noise_cell,
        verdicts=_noise_verdicts,
        figures={"regret": _noise_figure},
    ),
)
