"""Doors of counterplay.tables."""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression

from counterplay.tables import FittedModel, Labels, Schema, Table, fingerprint, hash_blocks

from .animals import frame, labels

MODEL = FittedModel.of(LogisticRegression().fit(frame(), labels()))

DOORS = {
    "Table": lambda X, y: Table.of(X, y).kinds,
    "Table.numbers": lambda X, y: Table.of(X, y).numbers(),
    "Labels": lambda X, y: Labels.of(y).wanted(),
    "Schema": lambda X, y: Schema.infer(X).to_dict(),
    "hash_blocks": lambda X, y: hash_blocks(X, 5).block,
    "fingerprint": lambda X, y: fingerprint(X).ordered,
    "FittedModel": lambda X, y: MODEL.predict(MODEL.table(X, y)),
}
NOT_TABLES: dict[str, str] = {}
