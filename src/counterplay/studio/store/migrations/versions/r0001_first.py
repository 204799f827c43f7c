"""The first schema: all tables, and triggers that keep the log append-only."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the frozen SQL of this database."""
    connection = op.get_bind()
    script = Path(__file__).with_name(f"0001_{connection.dialect.name}.sql").read_text("utf-8")
    for statement in script.split("\n\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)
