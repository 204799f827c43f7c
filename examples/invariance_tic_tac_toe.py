"""Should I augment? Tic-tac-toe boards with the eight symmetries, and digits 6 and 9."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay import datasets
from counterplay.invariance import groups, symmetry_advisor
from counterplay.invariance.lab import one_hot_boards, tic_tac_toe_endgames

boards, won = tic_tac_toe_endgames()
pick = np.random.default_rng(0).permutation(len(boards))[:150]
advice = symmetry_advisor(
    DecisionTreeClassifier(random_state=0),
    one_hot_boards(boards[pick]),
    won[pick],
    groups.d4((3, 3, 3)),
    random_state=0,
)
print("Boards, mirrored and rotated")
print(advice.summary())

X, y = datasets.load("digits", return_X_y=True)
keep = (y == 6) | (y == 9)
advice = symmetry_advisor(
    make_pipeline(StandardScaler(), LogisticRegression()),
    X[keep],
    y[keep],
    groups.image_rotations((8, 8), angles=2),
    random_state=0,
)
print("\nSixes and nines, turned upside down")
print(advice.summary())
advice.plot().figure.savefig("invariance_tic_tac_toe.png")
