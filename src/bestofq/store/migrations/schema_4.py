"""The Q-function of an episode's first step, beside the episode; owners of trees."""

import json

from alembic import op
from sqlalchemy import Column, LargeBinary, Text, bindparam, column, select, table

from bestofq.store.codec import text_of
from bestofq.store.migrating import seal
from bestofq.store.migrations import schema_2

revision, down_revision = "4", "3"


def upgrade() -> None:
    op.add_column("episodes", Column("checkpoint", Text))
    connection = op.get_bind()
    steps = table("steps", column("episode"), column("number"), column("decision", LargeBinary()))
    episodes = table("episodes", column("id"), column("status"), column("checkpoint"))
    first = select(steps.c.episode, steps.c.decision).join(episodes, episodes.c.id == steps.c.episode)
    rows = connection.execute(first.where(steps.c.number == 0, episodes.c.status != "running"))
    put = episodes.update().where(episodes.c.id == bindparam("of")).values(checkpoint=bindparam("name"))
    while some := rows.fetchmany(1000):
        named = [{"of": row.episode, "name": json.loads(text_of(row.decision)).get("checkpoint")} for row in some]
        if scored := [one for one in named if one["name"]]:
            connection.execute(put, scored)
    seal(connection, "episodes", (*schema_2.EPISODES[:-1], "outcome", "steps", "checkpoint", "owner"))
    op.add_column("trees", Column("owner", Text))
    seal(connection, "trees", ("run", "suite", "task", "repeat", "rollouts", "saved_at", "owner", "body"), keys=4)
    op.execute("UPDATE facts SET value = '4' WHERE name = 'schema'")
