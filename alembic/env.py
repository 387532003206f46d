"""Runs the migrations on the connection that ``cleanup-orchestrator-manage db`` has opened."""

from alembic import context

from cleanup_orchestrator.store import tables

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("run it by: cleanup-orchestrator-manage db")

context.configure(
    connection=connection,
    target_metadata=tables.metadata,
    # SQLite cannot alter a table: alembic copies it into a new one.
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
