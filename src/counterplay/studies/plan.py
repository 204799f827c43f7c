"""From a study to its cells: parameters, seed and fingerprint of each."""

from __future__ import annotations

from dataclasses import dataclass

from counterplay.core.seeds import derive_seed
from counterplay.errors import InvalidInputError
from counterplay.studies.codec import encode, plain
from counterplay.studies.fingerprint import study_fingerprint
from counterplay.studies.registry import RegisteredStudy
from counterplay.studies.study import Scale, Value


@dataclass(frozen=True)
class Cell:
    """One cell of a study: what is computed, and by which code."""

    study: str
    """Study id, ``AREA/NAME``."""
    params: dict[str, Value]
    key: str
    """The parameters as canonical JSON."""
    base_seed: int
    seed: int
    """What the cell function is given; depends on study, parameters and base seed only."""
    version: int
    fingerprint: str

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"{self.study}({inside})"


def plan_cells(entry: RegisteredStudy, scale: Scale, base_seed: int) -> list[Cell]:
    """Return every cell of the study at this scale, in the order of its grid."""
    study = entry.study
    fingerprint = study_fingerprint(study.cell, study.data)
    cells: dict[str, Cell] = {}
    for given in study.grid(scale):
        params = plain(given, f"the grid of {entry.id}")
        key = encode(params)
        if key in cells:
            raise InvalidInputError(
                f"the grid of {entry.id} lists {key} twice; "
                "tell replicates apart with a parameter such as 'replicate'"
            )
        seed = derive_seed(entry.id, params, base_seed)
        cells[key] = Cell(entry.id, params, key, base_seed, seed, study.version, fingerprint)
    return list(cells.values())
