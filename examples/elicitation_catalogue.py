"""Find the item three different people want, from comparisons, on a real table.

Laptops if COUNTERPLAY_DATA holds them, otherwise the wines that come with scikit-learn.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from counterplay.elicitation import (
    AtMost,
    Catalogue,
    LinearPreferenceUser,
    PolytopeElicitor,
    ReliableElicitor,
    answered_by,
)

folder = os.environ.get("COUNTERPLAY_DATA", "")
laptops = Path(folder) / "laptops.parquet"
if folder and laptops.exists():
    catalogue = Catalogue(
        pd.read_parquet(laptops),
        benefits=["RAM (GB)", "CPU_Frequency (GHz)"],
        costs=["Price (Euro)", "Weight (kg)"],
        name="Product",
    )
else:
    from sklearn.datasets import load_wine

    wines = load_wine(as_frame=True).data
    catalogue = Catalogue(
        wines,
        benefits=["alcohol", "flavanoids", "color_intensity"],
        costs=["malic_acid"],
    )
print(catalogue)
people = {
    "performance first": [1.0, 0.6, 0.1, 0.1],
    "balanced": [0.6, 0.6, 0.6, 0.6],
    "last criterion first": [0.2, 0.1, 0.3, 1.0],
}
for name, weights in people.items():
    person = LinearPreferenceUser(np.array(weights), eps=1e-3)
    elicitor = PolytopeElicitor(catalogue, target_regret=0.01, random_state=0)
    result = answered_by(elicitor, person)
    worth = catalogue.values @ person.w
    regret = 1 - worth[result.index] / worth.max()
    print(f"\n{name}: {result.summary()}")
    print(f"true regret {100 * regret:.2f} %")
    assert regret <= result.regret_certificate + 1e-9

careful = ReliableElicitor(catalogue, errors=AtMost(0.1), random_state=0)
result = answered_by(careful, LinearPreferenceUser([0.6, 0.6, 0.6, 0.6], eps=1e-3))
print(f"\nif one answer in ten may be wrong: {result.n_queries} questions")
print(result.summary())
result.plot().figure.savefig("elicitation_catalogue.png")
