"""From one schema version to the next: one Alembic revision each, whose name is the version that it leads to. They say
what they need of the tables themselves, so that later schemas do not change them."""
