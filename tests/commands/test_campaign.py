"""A campaign from files: the command line, CSV, Label Studio."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from counterplay.cli import run
from counterplay.errors import InvalidInputError
from counterplay.labeling import Campaign
from counterplay.labeling.campaign_files import (
    label_studio_tasks,
    question_rows,
    read_answers,
    tell_all,
)
from counterplay.tables import read_table


@pytest.fixture
def pool(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A pool on disk, and the label of each case."""
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.iloc[:120, [0, 1, 2, 3, 20, 21]].copy()
    frame["clinic"] = np.array(["north", "south"])[np.arange(120) % 2]
    frame["case"] = [f"c{i}" for i in range(120)]
    frame.to_csv(tmp_path / "pool.csv", index=False)
    truth = np.where(data.frame["target"][:120] == 1, "benign", "malignant")
    return tmp_path, dict(zip(frame["case"], truth))


def begin(folder: Path) -> Path:
    log = folder / "camp.jsonl"
    code = run(["campaign", "init", str(folder / "pool.csv"), "--owner", "clinic", "--classes",
                "benign,malignant", "--id", "case", "--scope", "union", "--max-error", "0.1",
                "--seed", "5", "-o", str(log)])  # fmt: skip
    assert code == 0
    return log


def test_names_of_items_and_parties_are_as_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{i:03d};0{i % 2};{rng.normal():.3f};m\u00fc\u00df" for i in range(60)]
    (tmp_path / "pool.csv").write_bytes("\n".join(["case;site;size;town", *rows]).encode("cp1252"))
    log, labels = tmp_path / "c.jsonl", tmp_path / "labels.csv"
    assert run(["campaign", "init", str(tmp_path / "pool.csv"), "--owner", "site", "--id", "case",
                "--classes", "yes,no", "--seed", "1", "-o", str(log)]) == 0  # fmt: skip
    assert "pool.csv: columns are separated by semicolons\n" in capsys.readouterr().err
    assert run(["campaign", "next", str(log), "-n", "3"]) == 0
    for line in capsys.readouterr().out.splitlines()[1:]:
        _, party, case, *_ = line.split(",")
        assert (len(case), party) == (3, f"0{int(case) % 2}")
    assert run(["campaign", "export", str(log), "-o", str(labels)]) == 0
    found = pd.read_csv(labels, dtype=str)
    assert found["case"].tolist() == [f"{i:03d}" for i in range(60)]


@pytest.mark.claim("24.25")
def test_round_trip_through_label_studio(
    pool: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, truth = pool
    log = begin(folder)
    tasks, done = folder / "tasks.json", folder / "done.json"
    for _ in range(40):
        capsys.readouterr()
        assert run(["campaign", "next", str(log), "-n", "200", "--label-studio", str(tasks)]) == 0
        if "finished" in capsys.readouterr().out:
            break
        content = json.loads(tasks.read_text())
        assert "audit" not in tasks.read_text()
        assert not any("predictions" in task for task in content)
        for task in content:
            choice = {"type": "choices", "value": {"choices": [truth[task["data"]["case"]]]}}
            task["annotations"] = [{"completed_by": 7, "result": [choice]}]
        done.write_text(json.dumps(content))
        assert run(["campaign", "tell", str(log), str(done)]) == 0
    labels, proof = folder / "labels.csv", folder / "proof.jsonl"
    assert run(["campaign", "export", str(log), "-o", str(labels), "--proof", str(proof)]) == 0
    assert run(["verify", str(proof)]) == 0
    # the Python run with the same seed
    frame = read_table(folder / "pool.csv").frame
    items = frame.drop(columns=["clinic", "case"])
    campaign = Campaign(items, owners=frame["clinic"], classes=["benign", "malignant"],
                        max_error=0.1, scope="union", random_state=5)  # fmt: skip
    while questions := campaign.ask(200):
        for question in questions:
            campaign.tell(question, truth[frame["case"][question.item]])
    result = campaign.result().to_frame()
    exported = pd.read_csv(labels)
    assert exported["label"].tolist() == result["label"].tolist()
    assert exported["source"].tolist() == result["source"].tolist()
    assert exported["case"].tolist() == frame["case"].tolist()
    assert (exported["label"] == [truth[c] for c in exported["case"]]).mean() >= 0.9
    assert run(["campaign", "status", str(log), "--json"]) == 0
    assert json.loads(tasks.read_text()) == []  # old questions must not be answered again
    questions = folder / "questions.csv"
    questions.write_text("question,label\nq1,benign\n")
    assert run(["campaign", "next", str(log), "--csv", str(questions)]) == 0
    assert pd.read_csv(questions).empty


@pytest.mark.claim("24.25")
def test_one_bad_row_changes_nothing(
    pool: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = pool
    log = begin(folder)
    questions = folder / "questions.csv"
    assert run(["campaign", "next", str(log), "-n", "4", "--csv", str(questions)]) == 0
    before = log.read_text()
    ids = pd.read_csv(questions)["question"].tolist()
    answers = folder / "answers.csv"
    answers.write_text(
        f"question,label,labeler\n{ids[0]},benign,ann\n{ids[1]},bening,ann\nq9,benign,bob\n"
    )
    assert run(["campaign", "tell", str(log), str(answers)]) == 2
    said = capsys.readouterr().err
    assert "nothing was taken: 2 of 3 answers are bad" in said
    assert "line 3: 'bening' is not a class of this campaign; did you mean 'benign'?" in said
    assert "line 4: question q9 was not asked" in said
    assert log.read_text() == before
    answers.write_text(f"question,label,labeler\n{ids[0]},benign,ann\n{ids[1]},skip,ann\n")
    assert run(["campaign", "tell", str(log), str(answers)]) == 0
    assert log.read_text().count('"type":"skip"') == 1


def test_mistakes_end_with_a_sentence(
    pool: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = pool
    log = begin(folder)
    assert run(["campaign", "init", str(folder / "pool.csv"), "--owner", "clinic", "--classes",
                "a,b", "-o", str(log)]) == 2  # fmt: skip
    assert "is there already" in capsys.readouterr().err
    assert run(["campaign", "init", str(folder / "pool.csv"), "--owner", "ward", "--classes",
                "a,b", "-o", str(folder / "x.jsonl")]) == 2  # fmt: skip
    assert "the pool has no column 'ward'" in capsys.readouterr().err
    (folder / "made.jsonl").write_text(Campaign(np.eye(40), owners=["a"] * 20 + ["b"] * 20,
                                                classes=[0, 1], max_error=0.1).log())  # fmt: skip
    assert run(["campaign", "status", str(folder / "made.jsonl")]) == 2
    assert "was begun in Python" in capsys.readouterr().err


def test_audit_of_a_delivery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = pd.DataFrame({"label": ["x", "y"] * 150})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    command = ["campaign", "audit", str(tmp_path / "labels.csv"), "--state",
               str(tmp_path / "audit.json"), "-n", "100"]  # fmt: skip
    assert run(command) == 0
    said = capsys.readouterr().out
    rows = [int(r) for r in said.split("next: ")[1].split(",")]
    told = pd.DataFrame({"row": rows, "label": labels["label"][rows]})
    told.to_csv(tmp_path / "told.csv", index=False)
    assert run([*command, "--answers", str(tmp_path / "told.csv")]) == 0
    assert "at most 5 % wrong" in capsys.readouterr().out


def test_predictions_are_shown_for_learning_only() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    campaign = Campaign(X, owners=np.arange(60) % 2, classes=["no", "yes"], max_error=0.1,
                        random_state=0)  # fmt: skip
    frame = pd.DataFrame(X, columns=["a", "b"])
    questions = campaign.ask(4)
    guesses = {q.id: "yes" for q in questions}
    tasks = label_studio_tasks(questions, frame, predictions=guesses)
    assert all(
        task["predictions"][0]["result"][0]["value"] == {"choices": ["yes"]} for task in tasks
    )
    checks = [type(q)(q.id, q.party, q.item, "audit", 0) for q in questions]
    assert not any(
        "predictions" in t for t in label_studio_tasks(checks, frame, predictions=guesses)
    )
    rows = question_rows(questions, frame)
    assert list(rows.columns) == ["question", "party", "a", "b"]


def test_strange_files_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no column 'label'"):
        read_answers("question,answer\nq1,a\n")
    with pytest.raises(InvalidInputError, match="task 1 of the export names no question"):
        read_answers('[{"data": {}}]')
    with pytest.raises(InvalidInputError, match="has no result with choices"):
        read_answers('[{"data": {"question": "q1"}, "annotations": [{"result": []}]}]')
    skipped = read_answers(
        '[{"data": {"question": "q1"}, "annotations": [{"was_cancelled": true}]},'
        ' {"data": {"question": "q2"}, "annotations": []}]'
    )
    assert [(a.question, a.label) for a in skipped] == [("q1", "skip")]
    campaign = Campaign(np.eye(40), owners=["a"] * 20 + ["b"] * 20, classes=[0, 1], max_error=0.1)
    twice = read_answers("question;label\nq1;0\nq1;1\n")
    with pytest.raises(InvalidInputError, match=r"question q1 was not asked|is in line 2, too"):
        tell_all(campaign, twice)


def test_rows_without_a_label_stay_open(
    pool: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, truth = pool
    log = begin(folder)
    answers = folder / "answers.csv"
    assert run(["campaign", "next", str(log), "-n", "6", "--csv", str(answers)]) == 0
    rows = pd.read_csv(answers, dtype=str)
    rows["label"] = [truth[case] if i < 2 else "" for i, case in enumerate(rows["case"])]
    rows.to_csv(answers, index=False)
    capsys.readouterr()
    assert run(["campaign", "tell", str(log), str(answers)]) == 0
    assert capsys.readouterr().out.startswith("2 answers taken, 4 rows without a label\n")
    assert run(["campaign", "next", str(log), "-n", "4"]) == 0
    shown = capsys.readouterr().out
    assert all(question in shown for question in rows["question"][2:])


@pytest.mark.filterwarnings("default::counterplay.errors.AssumptionWarning")
def test_a_warning_is_a_sentence(
    pool: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = pool
    told = ["campaign", "init", str(folder / "pool.csv"), "--owner", "clinic", "--classes", "a,b"]
    assert run([*told, "--id", "case", "--max-error", "0.01", "-o", str(folder / "c.jsonl")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    for line, clinic in zip(lines, ("north", "south")):
        assert line.startswith(f"counterplay: warning: pool '{clinic}' has 60 items: at most 1 %")


def test_an_answer_is_taken_back_and_given_anew(
    pool: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = pool
    log = begin(folder)
    questions, answers = folder / "questions.csv", folder / "answers.csv"
    assert run(["campaign", "next", str(log), "-n", "4", "--csv", str(questions)]) == 0
    name = pd.read_csv(questions)["question"][0]
    assert run(["campaign", "retract", str(log), name]) == 2
    assert f"question {name} was not answered; nothing to retract" in capsys.readouterr().err
    answers.write_text(f"question,label,labeler\n{name},benign,ann\n")
    assert run(["campaign", "tell", str(log), str(answers)]) == 0
    answers.write_text(f"question,label,labeler\n{name},malignant,bob\n")
    assert run(["campaign", "tell", str(log), str(answers)]) == 2
    assert "retract it first to change it" in capsys.readouterr().err
    assert run(["campaign", "retract", str(log), name]) == 0
    assert f"the answer to {name} is taken back" in capsys.readouterr().out
    assert '"blind":false' in log.read_text().splitlines()[-1]
    assert run(["campaign", "next", str(log), "-n", "4", "--csv", str(questions)]) == 0
    again = pd.read_csv(questions)["question"].tolist()
    answers.write_text(f"question,label,labeler\n{again[0]},malignant,bob\n")
    assert run(["campaign", "tell", str(log), str(answers)]) == 0
