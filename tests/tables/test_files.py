"""CSV and Parquet files of strangers: read, or refused in one sentence with the line."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pandas as pd
import pytest

from counterplay.errors import CounterplayError, DataUnavailableError, InvalidInputError
from counterplay.tables import read_table


def write(folder: Path, content: bytes | str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_plain_file(tmp_path: Path) -> None:
    path = write(tmp_path, "age,city\n39,Bonn\n50,Ulm\n")
    table = read_table(path)
    assert table.frame["age"].tolist() == [39, 50]
    assert table.notes == ()
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("delimiter", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")]
)
def test_the_delimiter_is_found_and_said(tmp_path: Path, delimiter: str, word: str) -> None:
    text = f"age{delimiter}city\n39{delimiter}Bonn, old town\n40{delimiter}Ulm\n"
    table = read_table(write(tmp_path, text))
    assert list(table.frame.columns) == ["age", "city"]
    assert any(word in note for note in table.notes)


def test_a_decimal_comma_is_found_and_said(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a;b\n1,5;x\n2,25;y\n"))
    assert table.frame["a"].tolist() == [1.5, 2.25]
    assert "decimal comma" in table.notes[-1]


def test_another_encoding_is_said(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "stadt,n\nKöln,1\n".encode("cp1252")))
    assert table.frame["stadt"].tolist() == ["Köln"]
    assert "line 2" in table.notes[0]
    table = read_table(write(tmp_path, "stadt,n\nKöln,1\n".encode("utf-16")))
    assert table.frame["stadt"].tolist() == ["Köln"]
    assert "UTF-16" in table.notes[0]
    table = read_table(write(tmp_path, "\ufeffstadt,n\nKöln,1\n"))
    assert list(table.frame.columns) == ["stadt", "n"]


def test_floats_are_read_exactly(tmp_path: Path) -> None:
    values = [0.1, 1 / 3, 2.0**-40 * 3, 1e300 / 7]
    text = "a\n" + "\n".join(map(repr, values)) + "\n"
    assert read_table(write(tmp_path, text)).frame["a"].tolist() == values


def test_compressed_and_parquet(tmp_path: Path) -> None:
    packed = write(tmp_path, gzip.compress(b"a,b\n1,2\n"), "t.csv.gz")
    assert read_table(packed).frame["b"].tolist() == [2]
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1, 2], "g": pd.Categorical(["x", "y"])})
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet").frame, frame)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n1,2\n3\n", "t.csv line 3: 1 cells, but there are 2 columns"),
        ("a,b\n1,2\n3,4,5\n", "t.csv line 3: 3 cells"),
        ('a,b\n"x\ny",2\n3\n', "t.csv line 4: 1 cells"),
        ("a,a\n1,2\n", "more than one column named 'a'"),
        ("a,\n1,2\n", "column 2 has no name"),
        ("a,b\n", "has column names, but no rows"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        (b"\x00\x01\x02", "not a text file"),
        (b"PAR1....", "is a Parquet file"),
        (b"\x1f\x8b\x08broken", "damaged archive"),
    ],
)
def test_defects_are_named(tmp_path: Path, content: bytes | str, sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_table(write(tmp_path, content))
    assert sentence in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    bomb = gzip.compress(b"a\n" + b"0\n" * 30_000_000)
    with pytest.raises(InvalidInputError, match="unpacks to more than"):
        read_table(write(tmp_path, bomb, "t.csv.gz"))


def test_missing_files_and_damaged_parquet(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match="there is no file"):
        read_table(tmp_path / "nowhere.csv")
    pytest.importorskip("pyarrow")
    for content in (b"nothing", b"PAR1" + b"\x00" * 50):
        with pytest.raises(CounterplayError):
            read_table(write(tmp_path, content, "t.parquet"))


def test_decimal_commas_are_not_taken_for_the_delimiter(tmp_path: Path) -> None:
    """Three numbers with decimal commas are four cells by either delimiter; the names decide."""
    path = tmp_path / "cars.csv"
    path.write_text("comfort;price;noise;seats\n0,5;10,0;3,1;4\n0,7;20,0;2,5;5\n0,9;1,5;2,0;2\n")
    table = read_table(path)
    assert list(table.frame.columns) == ["comfort", "price", "noise", "seats"]
    assert table.frame["price"].tolist() == [10.0, 20.0, 1.5]


def test_a_cell_that_is_too_large_is_said(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_text("a,b\n1," + "x" * 200_000 + "\n")
    with pytest.raises(InvalidInputError, match=r"large\.csv line 2"):
        read_table(path)


def test_an_index_without_a_name_says_how_to_write_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [1, 2]}).to_csv(path)
    with pytest.raises(InvalidInputError, match=r"column 1 has no name .*index=False"):
        read_table(path)


def test_a_folder_is_not_called_missing(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match="is a folder"):
        read_table(tmp_path)
