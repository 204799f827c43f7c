"""The first word of a command line: help, commands of a group, and words that are mistyped."""

from __future__ import annotations

import pytest

from counterplay import cli


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["--no-color", "help", "run"], "counterplay run"),
        (["help", "help"], "counterplay [OPTIONS] COMMAND"),
        (["help", "run", "--help"], "counterplay run"),
        (["campaign", "help"], "counterplay campaign [OPTIONS] COMMAND"),
        (["help", "campaign", "next"], "counterplay campaign next"),
        (["campaign", "help", "next"], "counterplay campaign next"),
        (["audit", "help", "init"], "counterplay audit init"),
        (["consortium", "help"], "counterplay consortium [OPTIONS] COMMAND"),
        (["help", "consortium", "site"], "counterplay consortium site"),
        (["studio", "help"], "counterplay studio [OPTIONS]"),
        (["studio", "--data", "x", "help", "study", "new"], "counterplay studio study new"),
        (["studio", "links", "help", "revoke"], "counterplay studio links revoke"),
        (["studio", "admin", "help"], "counterplay studio admin"),
    ],
)
def test_help_is_a_word_everywhere(
    words: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words) == 0
    assert shown(capsys).startswith(f"Usage: {usage}")


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (["consortium", "siet", "north.csv"], "did you mean 'site'?"),
        (["consortium", "descibe"], "did you mean 'describe'?"),
        (["studio", "links", "revok", "0123456789abcdef"], "did you mean 'revoke'?"),
        (["audit", "chek", "audit.toml"], "did you mean 'check'?"),
    ],
)
def test_a_mistyped_word_is_no_file_and_no_id(
    words: list[str], suggested: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words) == 2
    assert suggested in capsys.readouterr().err


def test_options_may_stand_before_the_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["consortium", "--label", "site", "site", "gone.csv", "--out", "x.json"]) == 2
    assert "there is no file 'gone.csv'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["audit"], ["audit", "MODEL", "DATA"], ["consortium"]])
def test_exit_codes_are_in_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*words, "--help"]) == 0
    told = shown(capsys).partition("Exit codes: ")[2]
    assert "0 " in told
    assert "3 " in told
    assert ("4 no gate fails but one is undecided" in told) == (words[0] == "audit")


def test_the_first_help_shows_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    place = lines.index("Examples:")
    assert lines[place + 1] == "counterplay audit demo"
    assert "Exit codes: 0 done" in " ".join(lines)


@pytest.mark.parametrize("words", [["campaign", "nxt"], ["help", "campaign", "nxt"]])
def test_an_unknown_word_of_a_group_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words) == 2
    told = capsys.readouterr().err
    assert told == (
        "counterplay: there is no command of campaign named 'nxt'; did you mean 'next'?\n"
    )
