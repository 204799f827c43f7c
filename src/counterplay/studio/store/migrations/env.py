"""Alembic's entry: run the revisions on the connection, and in the transaction, of the caller."""

from alembic import context

try:
    connection = context.config.attributes["connection"]
except (AttributeError, NameError):  # it is only imported, not run by Alembic
    connection = None
if connection is not None:
    context.configure(connection=connection)
    context.run_migrations()
