"""The questionnaire in the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterplay.cli import run
from counterplay.commands.elicit import app
from counterplay.errors import CounterplayError
from counterplay.verify import verify

COLUMNS = ["--benefit", "comfort", "--cost", "price", "--cost", "noise", "--name", "model"]


@pytest.fixture
def cars(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "model": [f"car [{i}]" for i in range(60)],
            "comfort": rng.random(60).round(3),
            "price": (rng.random(60) * 50_000).round(),
            "noise": (rng.random(60) * 30).round(1),
        }
    )
    path = tmp_path / "cars.csv"
    frame.to_csv(path, index=False)
    return path


def session(path: Path) -> dict:
    return json.loads(path.with_name("cars.csv.elicit.json").read_text())


def talk(path: Path, *words: str, options: list[str] | None = None, exact: bool = True):
    arguments = [str(path), *(COLUMNS if options is None else options), *["--exact"] * exact]
    return CliRunner().invoke(app, arguments, input="".join(f"{word}\n" for word in words))


@pytest.mark.claim("08.33")
def test_answers_are_saved_at_once_and_the_session_resumes(cars: Path) -> None:
    first = talk(cars, "1", "q")
    assert first.exit_code == 0, first.output
    assert "Question 1" in first.output
    assert "car [" in first.output
    assert "(less is better)" in first.output
    assert "saved 1 answers" in first.output
    saved = session(cars)
    assert [a["answer"] for a in saved["elicitor"]["answers"]] == ["first"]
    second = talk(cars, *["2"] * 40)
    assert "resumed after 1 answers" in second.output
    assert "Question 2" in second.output
    assert "Question 1 " not in second.output
    assert "certificate: at most" in second.output
    assert "as a share of your best item" in second.output
    finished = talk(cars)
    assert finished.exit_code == 0
    assert "certificate: at most" in finished.output


@pytest.mark.claim("08.33")
def test_end_of_input_keeps_every_answer(cars: Path) -> None:
    result = talk(cars, "1")
    assert "the same command continues" in result.output
    assert len(session(cars)["elicitor"]["answers"]) == 1


@pytest.mark.claim("08.33")
def test_undo_why_unknown_words_and_stop(cars: Path) -> None:
    result = talk(cars, "u", "w", "maybe", "1", "u", "2", "s")
    assert "there is no answer to take back" in result.output
    assert "Why: your answers so far leave both possible" in result.output
    assert "'maybe' is none of" in result.output
    assert "took the last answer back" in result.output
    assert "recommended after 1 questions" in result.output
    assert [a["answer"] for a in session(cars)["elicitor"]["answers"]] == ["second"]


@pytest.mark.claim("08.33")
def test_result_agrees_with_the_preferences_that_were_answered(cars: Path) -> None:
    """Play a person with known weights through the terminal, one command per question."""
    frame = pd.read_csv(cars)
    weights = {"comfort": 1.0, "price": 0.6, "noise": 0.2}
    values = pd.DataFrame(
        {
            "comfort": (frame.comfort - frame.comfort.min()) / np.ptp(frame.comfort),
            "price": 1 - (frame.price - frame.price.min()) / np.ptp(frame.price),
            "noise": 1 - (frame.noise - frame.noise.min()) / np.ptp(frame.noise),
        }
    )
    worth = sum(weights[c] * values[c] for c in weights).to_numpy()
    output = talk(cars, "q").output
    for _ in range(40):
        if "recommended after" in output:
            break
        items = [
            int(part.split("]")[0]) for part in output.split("Question")[-1].split("car [")[1:3]
        ]
        output = talk(cars, "1" if worth[items[0]] > worth[items[1]] else "2", "q").output
    answer = int(output.split("recommended after")[1].split("car [")[1].split("]")[0])
    assert 1 - worth[answer] / worth.max() <= 0.01


@pytest.mark.claim("08.33")
def test_contradiction_is_shown_and_the_question_comes_again(cars: Path) -> None:
    from counterplay.elicitation import Catalogue, PolytopeElicitor

    talk(cars, "1", "q")
    path = cars.with_name("cars.csv.elicit.json")
    saved = json.loads(path.read_text())
    catalogue = Catalogue(pd.read_csv(cars), ["comfort"], ["price", "noise"], name="model")
    elicitor = PolytopeElicitor.from_json(json.dumps(saved["elicitor"]), catalogue)
    first, second = elicitor.events[0].options
    pool = elicitor._state.pool
    elicitor.volunteer(pool.items[first], pool.items[second], "second")
    saved["elicitor"] = json.loads(elicitor.to_json())
    path.write_text(json.dumps(saved))
    result = talk(cars, "2", *["1"] * 30)
    assert "exclude each other; please look at question 1 again" in result.output
    assert "contradiction: answers 1, 2 exclude each other; 1 changed" in result.output


def test_columns_are_asked_for_when_none_are_named(cars: Path) -> None:
    result = talk(cars, "m", "l", "i", "1", "s", options=["--name", "model"])
    assert "comfort" in result.output
    assert "more is better" in result.output
    assert session(cars)["setup"] == {
        "benefits": ["comfort"],
        "costs": ["price"],
        "name": "model",
        "either": [],
        "exact": True,
        "seed": 0,
    }


@pytest.mark.claim("26.15")
def test_json_row_is_the_row_of_the_file(cars: Path) -> None:
    """Incomplete rows are left out, but the rows of the file keep their numbers."""
    frame = pd.read_csv(cars)
    holes = pd.DataFrame({"model": ["x", "y"], "comfort": [0.5, np.nan], "noise": [1.0, 2.0]})
    pd.concat([holes, frame]).to_csv(cars, index=False)
    result = CliRunner().invoke(app, [str(cars), *COLUMNS, "--json"], input="1\n" * 40)
    record = json.loads(result.stdout)
    assert pd.read_csv(cars)["model"][record["row"]] == record["name"]
    text = cars.read_text().replace("0.637,", "wide,", 1)
    assert text != cars.read_text()
    cars.write_text(text)
    words = talk(cars, options=[*COLUMNS, "--fresh"])
    assert "row 2 has 'wide' in column 'comfort'" in str(words.exception)


def test_what_was_found_out_about_the_file_is_said(cars: Path) -> None:
    frame = pd.read_csv(cars)
    cars.write_text(frame.to_csv(index=False, sep=";", decimal=","))
    result = talk(cars, "q")
    assert "cars.csv: columns are separated by semicolons" in result.output
    assert "cars.csv: numbers are written with a decimal comma" in result.output
    assert "60 items, judged by comfort, price, noise" in result.output


@pytest.mark.parametrize("index", ["model", None])
def test_rows_of_a_parquet_file_are_counted_whatever_its_index(
    cars: Path, index: str | None
) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(cars)
    path = cars.with_suffix(".parquet")
    frame.set_axis(frame["model"].rename(index)).drop(columns="model").to_parquet(path)
    options = COLUMNS if index else COLUMNS[:-2]
    result = CliRunner().invoke(app, [str(path), *options, "--json"], input="1\n" * 40)
    record = json.loads(result.stdout)
    assert record["name"] == (f"car [{record['row']}]" if index else str(record["row"]))


def test_json_output_is_machine_readable(cars: Path) -> None:
    result = CliRunner().invoke(app, [str(cars), *COLUMNS, "--exact", "--json"], input="1\n" * 40)
    record = json.loads(result.stdout)  # nothing else is there, questions go to the other stream
    assert record["regret_certificate"] <= 0.01
    assert record["name"] == f"car [{record['row']}]"


def test_missing_numbers_are_left_out(cars: Path) -> None:
    frame = pd.read_csv(cars)
    frame.loc[3, "price"] = np.nan
    frame.to_csv(cars, index=False)
    assert "left out 1 item with missing numbers" in talk(cars, "q").output


def test_items_are_named_by_the_first_column_of_distinct_words(cars: Path) -> None:
    talk(cars, "q", options=COLUMNS[:-2])
    assert session(cars)["setup"]["name"] == "model"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model,comfort,price,noise\na,0.5,cheap,1\nb,1,2,3\n", "row 0 has 'cheap' in column"),
        ("model,comfort,price\na,0.5,1\nb,1,2\n", "no column named 'noise'"),
        ("model,comfort,price,noise\na,0.5,2,1\n", "only one complete item"),
        ("model,comfort,price,noise\na,,2,1\nb,1,,3\n", "no complete item"),
        ("model,comfort,price,noise\na,inf,2,1\nb,1,2,3\n", "no finite number in column"),
        ("model,comfort,price,noise\na,1,2,1,7\nb,1,2,3,4,5\n", "line 2: 5 cells, but there are 4"),
        ("model,price,price,noise\na,1,2,3\n", "more than one column named 'price'"),
        ("", "cars.csv is empty"),
    ],
)
def test_bad_tables_get_one_clear_sentence(
    cars: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cars.write_text(text)
    assert run(["elicit", str(cars), *COLUMNS]) == 2
    said = capsys.readouterr().err.strip()
    assert words in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda path: path.unlink(), "there is no file"),
        (
            lambda path: path.write_text(path.read_text() + "x,0.5,1,1\n"),
            "has changed since",
        ),
        (
            lambda path: path.with_name("cars.csv.elicit.json").write_text("{}"),
            "kind: expected 'questionnaire', got None; start over with --fresh",
        ),
        (
            lambda path: path.with_name("cars.csv.elicit.json").write_text("[" * 100_000),
            "nested 100000 deep, at most 40 is allowed; start over with --fresh",
        ),
        (
            lambda path: path.with_name("cars.csv.elicit.json").write_bytes(b"\xff"),
            "not valid UTF-8; start over with --fresh",
        ),
    ],
)
def test_what_cannot_be_resumed_is_said(cars: Path, prepare, words: str) -> None:
    talk(cars, "1", "q")
    prepare(cars)
    result = talk(cars, "q")
    assert isinstance(result.exception, CounterplayError)
    assert words in str(result.exception)


def test_other_columns_need_a_fresh_start(cars: Path) -> None:
    talk(cars, "1", "q")
    other = ["--benefit", "comfort", "--cost", "price", "--name", "model"]
    assert "other columns" in str(talk(cars, "q", options=other).exception)
    assert talk(cars, "q", options=[*other, "--fresh"]).exit_code == 0


def test_command_line_knows_the_questionnaire(
    cars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["elicit", str(cars.with_name("nothing.csv"))]) == 2
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize("undo", [False, True])
def test_the_export_is_verified_by_other_code(cars: Path, undo: bool) -> None:
    export = cars.with_name("cars.jsonl")
    words = ["1", "u"] if undo else []
    options = [*COLUMNS, "--export", str(export)]
    done = talk(cars, *words, *["1", "2"] * 20, options=options)
    assert done.exit_code == 0, done.output
    assert "check it with: counterplay verify" in done.output
    assert run(["verify", str(export), "--table", str(cars)]) == 0
    found = verify(export, table=cars)
    assert found.holds, found.summary()
    names = [check.name for check in found.checks]
    assert names == ["configuration", "chain of person", "table", "certificate of person"]
    cars.write_text(cars.read_text().replace("0.", "1.", 1))
    assert run(["verify", str(export), "--table", str(cars)]) == 3


RELIABLE = [*COLUMNS, "--errors", "0.1", "--target", "0.2"]


@pytest.mark.claim("26.37")
def test_a_questionnaire_with_slips_is_exported_and_proved_again(cars: Path) -> None:
    export = cars.with_name("cars.jsonl")
    options = [*RELIABLE, "--export", str(export)]
    done = talk(cars, *["1", "2", "?"] * 3, "s", "", options=options, exact=False)
    assert done.exit_code == 0, done.output
    found = verify(export, table=cars)
    assert found.holds, found.summary()
    assert "reliable certificate of person" in [check.name for check in found.checks]


@pytest.mark.claim("26.16")
def test_the_last_answer_can_be_undone(cars: Path) -> None:
    result = talk(cars, "1", "s", "u", "2", "s", options=RELIABLE, exact=False)
    assert "u to undo, enter to finish" in result.output
    assert "took the last answer back" in result.output
    answers = session(cars)["elicitor"]["answers"]
    assert [a["order"] for a in answers] == [[1]]


@pytest.mark.claim("26.16")
@pytest.mark.parametrize(
    "option", [["--target", "0.3"], ["--seed", "7"], ["--errors", "0.2"], ["--show", "3"]]
)
def test_other_options_on_resume_are_refused_by_name(cars: Path, option: list[str]) -> None:
    talk(cars, "1", "q", options=RELIABLE, exact=False)
    again = talk(cars, "q", options=[*COLUMNS, *option], exact=False)
    assert f"was started with {option[0]} " in str(again.exception)
    assert talk(cars, "q", options=RELIABLE, exact=False).exit_code == 0


@pytest.mark.claim("26.16")
def test_another_name_column_is_refused(cars: Path) -> None:
    talk(cars, "1", "q", options=RELIABLE, exact=False)
    again = talk(cars, "q", options=["--name", "comfort"], exact=False)
    assert "was started with --name model" in str(again.exception)


@pytest.mark.claim("26.16")
def test_equal_names_get_a_number(cars: Path) -> None:
    frame = pd.read_csv(cars).rename(columns={"model": "Name"}).assign(Name="bee")
    frame.to_csv(cars, index=False)
    result = talk(cars, "q", options=COLUMNS[:-2], exact=False)
    assert "bee (" in result.output


@pytest.mark.claim("26.16")
def test_quitting_prints_json(cars: Path) -> None:
    arguments = [str(cars), *RELIABLE, "--json"]
    result = CliRunner().invoke(app, arguments, input="1\nq\n")
    record = json.loads(result.stdout)
    assert record["finished"] is False
    assert record["line"] == record["row"] + 2
    assert record["questions"] == 1


@pytest.mark.claim("26.16")
def test_an_unknown_column_is_named_as_unknown(cars: Path) -> None:
    talk(cars, "1", "q", options=RELIABLE, exact=False)
    again = talk(cars, "q", options=["--benefit", "comfrt"], exact=False)
    assert "comfrt" in str(again.exception)
    assert "other columns" not in str(again.exception)


def test_several_items_at_a_time(cars: Path) -> None:
    result = talk(cars, "3", "0", "s", options=[*COLUMNS, "--show", "3"], exact=False)
    assert "[3] car" in result.output
    assert result.exit_code == 0
    said = [a["said"] for a in session(cars)["elicitor"]["answers"]]
    assert said == ["choice", "cannot say"]
    assert "if at most 10 % of the answers given" in " ".join(result.output.split())


def test_the_words_fit_an_attribute_of_unknown_sign(cars: Path) -> None:
    options = ["--benefit", "comfort", "--either", "noise", "--name", "model"]
    told = " ".join(talk(cars, "1", "s", options=options, exact=False).output.split())
    assert "of the way from your favourite to the worst; the goal is 5 %" in told
    assert "below your favourite" not in told
    assert "if every answer is right: not computed where signs are unknown" in told
