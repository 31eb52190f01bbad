"""bestofq 0.1.0: where all stores begin."""

revision, down_revision = "1", None


def upgrade() -> None:
    """Its tables are there."""
