"""The walk through a district that two different people want, shown as real trips.

West Oakland (OpenStreetMap) if COUNTERPLAY_DATA holds west_oakland.osm.bz2, otherwise a made-up
city; docs/areas/elicitation.md says where to get the extract.
"""

import os
from pathlib import Path

import numpy as np

from counterplay.elicitation import (
    LinearPreferenceUser,
    PolytopeElicitor,
    city,
    expand_and_compress,
    from_road_graph,
    plan,
    read_street_map,
)

folder = os.environ.get("COUNTERPLAY_DATA", "")
extract = Path(folder) / "west_oakland.osm.bz2"
real = bool(folder) and extract.exists()
if real:
    streets, (start, goal), horizon = read_street_map(extract), (1556168378, 436645490), 30
    objectives = costs = ["time", "traffic", "signals"]
else:
    streets, (start, goal), horizon = city(), ((5, 0), (1, 7)), 18
    objectives, costs = ["time", "scenery", "safety"], ["time"]
walks = from_road_graph(
    streets,
    start,
    goal,
    horizon,
    objectives=objectives,
    costs=costs,
    forward_only=real,  # streets of different length: every trip must arrive
)
print(walks)
for name, weights in {"in a hurry": [1.0, 0.0, 0.1], "second goal first": [0.1, 1.0, 0.1]}.items():
    person = LinearPreferenceUser(np.array(weights), eps=1e-4)
    result = PolytopeElicitor(walks, random_state=0).run(person)
    best = float(plan(walks, person.w).scalar_values[0])
    regret = max(0.0, 1 - float(result.value @ person.w) / best)
    print(f"\n{name}: {result.n_queries} questions, true regret {100 * regret:.2f} %")
    print(expand_and_compress(walks, result.policy).describe(max_steps=6))
    assert regret <= result.regret_certificate + 1e-9
