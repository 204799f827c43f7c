"""The ledger of the benchmarks, and the page that is made from what it keeps."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import ledger
import needed_tables
import peers
import records
import speed

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "benchmarks").glob("bench_*.py"))


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A file with one record of each kind."""
    target = tmp_path / "results.jsonl"
    monkeypatch.setenv("COUNTERPLAY_BENCH", str(target))
    ledger.setup({"river": "0.26", "aprel": "does not install"}, 0.1)
    slow = ledger.Times((2.0, 3.0, 4.0), "median")
    ledger.compare("tradeoff", "a round", ledger.Times((1.0, 1.0, 1.5), "median"), slow,
                   against="plain loop | by hand", package="numpy", bar=20)  # fmt: skip
    ledger.compare("tables", "hashes", ledger.Times((2.0, 2.1, 2.2)),
                   ledger.Times((1.0, 1.1, 1.2)), against="pandas")  # fmt: skip
    ledger.growth("tradeoff", "a plan", {10: 1.0, 1000: 100.0}, size="rounds", bar=200.0)
    ledger.skipped("tradeoff", "a guard", "river is not installed")
    return target


def changed(path, place, **values):
    """Write the file again with other values in the record at a place."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[place] |= values
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_comparison_that_is_made_later_is_no_longer_left_out(kept):
    ledger.compare("tradeoff", "a guard", 1.0, 2.0, against="river")
    told = [(r["kind"], r["what"]) for r in records.read(kept)]
    assert ("comparison", "a guard") in told
    assert ("skipped", "a guard") not in told


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_compiles_and_says_its_results_through_the_ledger(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "ledger"
        for alias in node.names
    }
    assert imported & {"compare", "growth"}
    assert imported <= set(vars(ledger))
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "print" not in called, "results go through the ledger"
    helpers = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert not helpers & {"timed", "best_of", "Ratio", "ratio", "interleaved"}, "in ledger.py"


def test_every_call_of_the_ledger_names_an_area_that_exists():
    areas = {*speed.pages.SITUATIONS, "core", "tables", "audit", "studio"}
    for script in SCRIPTS:
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id in ("compare", "growth", "skipped"):
                named = node.args[0]
                if script.stem != "bench_growth":  # there the area is a key, see below
                    assert ast.literal_eval(named) in areas, f"{script.name}:{node.lineno}"


def test_every_area_has_a_growth_curve():
    tree = ast.parse((ROOT / "benchmarks" / "bench_growth.py").read_text(encoding="utf-8"))
    (curves,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CURVES"
    )
    keys = {ast.literal_eval(key) for key in curves.keys}
    assert keys == {*speed.pages.SITUATIONS, "tables", "audit"}
    for curve in ast.walk(curves):
        if isinstance(curve, ast.Tuple) and all(isinstance(n, ast.Constant) for n in curve.elts):
            sizes = [n.value for n in curve.elts]
            assert len(sizes) > 2
            assert sizes == sorted(sizes)


def test_the_page_draws_the_curves(kept, monkeypatch):
    assert speed.growth_picture(kept) is None  # two points are no curve
    monkeypatch.setenv("COUNTERPLAY_BENCH", str(kept))
    ledger.growth("tables", "hashes", {10: 1.0, 100: 11.0, 1000: 120.0}, size="rows")
    assert b"<svg" in speed.growth_picture(kept)
    page = speed.speed_page(kept)
    assert f"]({speed.PICTURE})" in page
    grown, promised = page.index("## Growth"), page.index("## Promised")
    row = next(line for line in page[grown:promised].splitlines() if "| hashes" in line)
    assert "n^1.0" in row
    assert "a plan" not in page[grown:promised]  # a cost at two sizes is no curve
    assert "at most 200 s: met" in page[promised:]


def test_a_ratio_says_how_many_times_better_we_are(capsys):
    cheaper = ledger.compare("core", "x", 1.0, 4.0, against="y")
    assert cheaper["ratio"] == 4.0
    better = ledger.compare("core", "x", 0.9, 0.6, against="y", unit="accuracy", more=True)
    assert round(better["ratio"], 9) == 1.5
    worse = ledger.compare("core", "x", [3, 5], [1, 3], against="y", unit="questions", bar=1.0)
    assert (worse["ratio"], records.holds(worse)) == (0.5, False)
    nothing = ledger.compare("core", "x", 0.0, 3.0, against="y", unit="errors", bar=1.0)
    assert (nothing["ratio"], records.holds(nothing)) == (None, True)
    lines = capsys.readouterr().out.splitlines()
    assert all(
        re.match(r"core +(\d|no ratio).*not decided.* \| x: .* against .*, y$", e) for e in lines
    )
    assert "bar 1 MISSED" in lines[2]


def test_the_range_goes_over_the_turns_and_decides_who_wins():
    ours, theirs = ledger.Times((1.0, 2.0, 4.0), "paired"), ledger.Times((2.0, 6.0, 2.0), "paired")
    record = ledger.compare("core", "x", ours, theirs, against="y")
    assert (record["ratio"], record["low"], record["high"]) == (2.0, 0.5, 3.0)
    assert record["wins"] == "even"  # the turns disagree
    apart = ledger.compare(
        "core", "x", ledger.Times((1.0, 2.0, 1.5)), ledger.Times((3.0, 4.0, 3.5)), against="y"
    )
    assert (apart["ratio"], apart["low"], apart["high"]) == (3.0, 1.5, 4.0)
    assert apart["wins"] == "ours"


ONCE = {
    "one turn of a time": (1.0, 900.0, "s"),
    "a quality measured once": (0.5, 0.9, "error"),
    "a count": (2.0, 0.0, "of 2 consortia"),
    "no ratio": (0.0, 3.0, "errors"),
    "several turns of one side alone": (ledger.Times((1.0, 1.1, 1.2)), ledger.Times((9.0,)), "s"),
    "two splits": ([0.1, 0.1], [0.9, 0.9], "error"),
}


@pytest.mark.parametrize("name", ONCE)
def test_what_was_measured_once_is_not_decided(name):
    ours, theirs, unit = ONCE[name]
    record = ledger.compare("core", "x", ours, theirs, against="y", unit=unit)
    assert (record["wins"], records.ranged(record)) == ("undecided", "one turn")


def test_quality_is_decided_by_the_interval_of_the_gain():
    close = ledger.compare("core", "x", 0.154, 0.159, against="y", unit="regret",
                           gain=(-0.008, 0.018))  # fmt: skip
    assert (close["wins"], records.ranged(close)) == ("even", "gain -0.008 to +0.018")
    pairs = ledger.compare("core", "x", [0.9, 0.8, 0.7], [0.7, 0.6, 0.5 + 1e-9], against="y",
                           unit="accuracy", more=True)  # fmt: skip
    assert pairs["wins"] == "ours"
    assert pairs["gain"] == pytest.approx([0.2, 0.2])
    assert ledger.compare("core", "x", [1, 2, 3], [2, 3, 1], against="y")["wins"] == "even"
    assert ledger.compare("core", "x", [5, 5, 5], [5, 5, 5], against="y")["wins"] == "even"


def test_the_gain_of_medians_has_an_interval_for_groups_of_any_size():
    few, many = [1.0] * 5, [3.0] * 50
    assert ledger.median_gain(few, many) == (2.0, 2.0)
    assert ledger.median_gain(few, many, more=True) == (-2.0, -2.0)
    low, high = ledger.median_gain([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    assert low < 0 < high


def test_whom_we_are_compared_with_follows_from_the_package():
    def kind(against, package=None):
        return records.rival({"theirs": {"name": against, "package": package}})

    assert kind("EWARegressor", "river") == kind("exact", "treecf") == "peer"
    assert kind("its scan", "giskard") == "peer"  # from an environment of its own
    assert kind("a loop", "numpy") == kind("a loop") == "plain code"
    assert kind("one after the other", "counterplay") == "own variant"
    assert kind("the bar of 200 ms") == "target"


def test_times_keep_the_turns_the_number_for_them_and_the_result(monkeypatch):
    times = ledger.Times((4.0, 1.0, 1.0), "median", "found")
    assert (times.value, times.each(2).turns, times.each(2).result) == (
        1.0,
        (2.0, 0.5, 0.5),
        "found",
    )
    assert (ledger.Times((4.0, 1.0)).value, ledger.Times((4.0, 1.0), "mean").value) == (1.0, 2.5)
    calls = []
    ours, theirs = ledger.in_turns(lambda: calls.append(1), lambda: calls.append(2), 2)
    assert calls == [1, 2, 1, 2]
    assert ours.how == theirs.how == "paired"
    monkeypatch.setenv("COUNTERPLAY_TURNS", "1")
    assert len(ledger.timed(lambda: 7, 5).turns) == 1
    monkeypatch.delenv("COUNTERPLAY_TURNS")
    assert len(ledger.timed(lambda: 7).turns) == ledger.LEAST  # enough for a range


def test_the_file_has_the_facts_of_the_machine_and_no_names_or_paths(kept):
    found = records.read(kept)
    assert [r["kind"] for r in found] == [
        "setup",
        "comparison",
        "comparison",
        "growth",
        "skipped",
    ]
    assert found[1]["theirs"]["version"]
    for record in found:
        assert set(record["machine"]) == {"python", "system", "cores", "packages"}
    assert str(kept.parent) not in kept.read_text()


def test_of_two_records_of_one_comparison_the_later_counts(kept):
    ledger.compare("tables", "hashes", 1.0, 3.0, against="pandas")
    (found,) = [record for record in records.read(kept) if record["what"] == "hashes"]
    assert found["ratio"] == 3.0


DAMAGE = {
    "a field of another kind": (1, {"ratio": "much"}, "ratio is 'much'"),
    "a ratio outside its range": (1, {"low": 5.0}, "is not between"),
    "a ratio without a range": (1, {"low": None}, "a ratio has a range"),
    "a gain that is no interval": (1, {"gain": [2.0, 1.0]}, "no interval"),
    "the wrong winner": (1, {"wins": "theirs"}, "not who wins"),
    "an unknown kind": (1, {"kind": "rumour"}, "the kind of a record"),
    "a number that is none": (1, {"ratio": float("nan")}, "NaN is not a measured number"),
    "an empty curve": (3, {"points": []}, "at least one point"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_record_is_refused_with_its_line(kept, name):
    place, values, message = DAMAGE[name]
    changed(kept, place, **values)
    with pytest.raises(ValueError, match=rf"line {place + 1}: .*{message}"):
        records.read(kept)


def test_a_cut_line_and_a_missing_field_are_refused(kept):
    whole = kept.read_text()
    kept.write_text(whole[:-20])
    with pytest.raises(ValueError, match="line 5"):
        records.read(kept)
    kept.write_text(whole.replace('"note": ""', '"remark": ""'))
    with pytest.raises(ValueError, match="line 2: note is missing"):
        speed.speed_page(kept)


def row_of(page, what):
    (row,) = (line for line in page.splitlines() if f"| {what} " in line)
    return row


def test_the_page_shows_who_wins_also_where_it_is_not_us(kept):
    page = speed.speed_page(kept)
    row = row_of(page, "a round")
    assert r"plain loop \| by hand (numpy" in row
    assert "| plain code | 3 | 1.33 to 4 | **ours** |" in row
    assert "**missed**" in row
    assert "**theirs**" in row_of(page, "hashes")
    assert "at most 200 s: met" in row_of(page, "a plan")
    assert "tradeoff: a guard (river is not installed)" in page
    assert "aprel does not install" in page
    assert page.index("| tradeoff | a round") < page.index("| tables | hashes")  # one table


@pytest.mark.slow
def test_a_click_on_a_heading_sorts_the_table_by_numbers(tmp_path):
    api = pytest.importorskip("playwright.sync_api")
    if not (path := shutil.which("chromium")):
        pytest.skip("no chromium here")
    rows = "".join(f"<tr><td>{cell}</td></tr>" for cell in ("30", "-", "1,200", "4.5"))
    script = (ROOT / "docs" / "assets" / "sort.js").read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(
        f"<div class=sortable><table><thead><tr><th>ratio</th></tr></thead><tbody>{rows}</tbody>"
        f"</table></div><script>{script}</script>",
        encoding="utf-8",
    )
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.as_uri())
        for order in (["4.5", "30", "1,200", "-"], ["1,200", "30", "4.5", "-"]):
            tab.get_by_role("button", name="ratio").click()
            assert tab.locator("td").all_inner_texts() == order
        browser.close()


def test_the_headline_counts_peers_alone(kept):
    assert "Of 0 comparisons with other packages we win 0, lose 0" in speed.speed_page(kept)
    fast, slow = ledger.Times((1.0, 1.1, 1.2)), ledger.Times((5.0, 5.1, 5.2))
    ledger.compare("tradeoff", "won", fast, slow, against="Exp3", package="river")
    ledger.compare("tradeoff", "lost", slow, fast, against="Exp3", package="river")
    ledger.compare("tradeoff", "once", 1.0, 900.0, against="Exp3", package="river")
    ledger.compare("tradeoff", "ourselves", fast, slow, against="a loop", package="counterplay")
    ledger.compare("tradeoff", "p95", 0.1, 0.2, against="the bar of 200 ms", bar=1.0)
    page = speed.speed_page(kept)
    assert (
        "Of 3 comparisons with other packages we win 1, lose 1 and are even in 0; "
        "1 are not decided. "
        "2 comparisons with plain code and 1 with other ways of this library"
    ) in page
    assert "not decided" in row_of(page, "once")
    assert page.index("## Promised") < page.index(
        "| tradeoff | p95 | - | 100 ms | at most 200 ms: met"
    )
    assert records.RULE in page


def test_the_page_says_when_the_machine_was_busy(kept):
    cores = records.read(kept)[0]["machine"]["cores"]
    changed(kept, 0, load=0.1)
    assert "busy" not in speed.speed_page(kept)
    changed(kept, 0, load=3.0 * cores)
    assert "**The machine was busy**" in speed.speed_page(kept)


def test_the_load_is_what_other_programs_used_while_the_benchmarks_ran(monkeypatch):
    monkeypatch.setattr(peers, "busy", lambda: (110.0, 45.0, 30.0))
    assert peers.others((100.0, 20.0, 10.0)) == pytest.approx(0.5)  # 5 of 25 s were not ours
    monkeypatch.setattr(peers, "busy", lambda: (110.0, float("nan"), float("nan")))
    assert peers.others((100.0, float("nan"), float("nan"))) is None


def test_without_results_the_page_says_how_to_make_them(tmp_path):
    assert "run `make bench-peers`" in speed.speed_page(tmp_path / "none.jsonl")


def test_the_results_in_the_repository_are_whole():
    if speed.RESULTS.exists():
        assert len(records.read(speed.RESULTS)) > 20
    assert "speed.md" in (ROOT / "docs" / "hooks.py").read_text()


def test_every_peer_is_one_requirement_and_torch_is_pinned():
    found = peers.requirements()
    assert len(found) == len(set(found))
    assert all(re.fullmatch(r"[\w.-]+(==[\d.]+)?", requirement) for requirement in found)
    assert peers.TORCH in (ROOT / "constraints.txt").read_text().splitlines()


def test_every_peer_is_measured_and_stands_on_the_page_of_other_libraries():
    scripts = "".join(script.read_text(encoding="utf-8") for script in SCRIPTS)
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").lower()
    short = {"adversarial-robustness-toolbox": "art ", "modAL-python": "modal", "flwr": "flower"}
    for name in records.peer_names() - {"ray"}:  # ray carries Flower's simulation
        assert f'"{name}"' in scripts, name
        assert short.get(name, name).lower() in page, name


def test_the_page_of_other_libraries_says_how_far_we_went_with_each():
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) > 40
    for project, we, *_ in rows:
        if project.strip() != "project":
            assert we.strip() in {"ran", "imported", "read"}, project
            if we.strip() != "read":
                assert re.search(r"\d", project), f"{project}: which version?"


def test_what_the_benchmarks_need_is_listed_and_what_is_missing_is_said(
    kept, monkeypatch, tmp_path
):
    monkeypatch.setenv("COUNTERPLAY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scripts = {script.stem.removeprefix("bench_") for script in SCRIPTS}
    assert all(set(users) <= scripts for users in needed_tables.NEEDED.values())
    told = needed_tables.missing()
    assert len(told) == len(needed_tables.NEEDED)
    assert any(line.startswith("heloc is not here; needed by consortium, moves") for line in told)
    page = speed.speed_page(kept)
    assert all(f"| `{name}` |" in page for name in needed_tables.NEEDED)


def test_every_data_set_that_a_benchmark_names_is_listed():
    for script in SCRIPTS:
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Constant) and node.value in needed_tables.CATALOGUE
            if named and script.stem != "bench_growth":
                assert node.value in needed_tables.NEEDED, f"{script.name}:{node.lineno}"
