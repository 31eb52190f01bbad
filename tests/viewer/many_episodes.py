"""A store of many episodes, written straight into its tables; only their names, outcomes and times differ."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import insert
from tiny_shop import PROVENANCE, shop_page, shop_task

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Verdict
from bestofq.store import database
from bestofq.store.codec import content_key, pack
from bestofq.store.schema import EPISODES, PAGES, RUNS, STEPS, TASKS, add_checksum
from bestofq.store.store import Store

AGENTS = ("best-of-q", "picker", "prompting", "random")


def write_many(folder: Path, episodes: int, *, steps: int = 4) -> None:
    """`episodes` of four agents in five runs, each of `steps` steps on pages without pictures."""
    Store.open(folder).close()
    page = pack(shop_page(0, pictured=False))
    candidates = tuple(Candidate(action=Click(mark=mark), label=f"click link Kettle {mark}") for mark in (1, 2))
    decision = pack(Decision(candidates=candidates, scores=(0.4, 0.6), state_value=0.5, chosen=1))
    verdicts = [
        Verdict(reward=float(won), outcome="success" if won else "failure", reason="" if won else "ran out of steps")
        for won in (True, False)
    ]
    began = datetime(2026, 1, 1, tzinfo=UTC)
    rows, tasks = [], {}
    for number in range(episodes):
        task = pack(shop_task(f"shop{number // 20 % 15}--{number // 20}", f"find kettle {number // 20}"))
        tasks[content_key(task)] = task
        at = began + timedelta(seconds=number)
        rows.append(
            {
                "id": f"{number:016x}",
                "run": f"run-{number * 5 // episodes}",
                "agent": AGENTS[number % 4],
                "suite": "shop",
                "split": "test",
                "task": f"shop{number // 20 % 15}--{number // 20}",
                "repeat": number // 4 % 5,
                "status": "finished",
                "task_key": content_key(task),
                "provenance": PROVENANCE.model_dump_json(),
                "started_at": at.isoformat(),
                "ended_at": (at + timedelta(seconds=9)).isoformat(),
                "final_key": content_key(page),
                "verdict": verdicts[number % 3 == 0].model_dump_json(exclude_defaults=True),
                "steps": steps,
            }
        )
    step = {"page_key": content_key(page), "decision": decision, "reward": 0.0, "terminated": False, "truncated": False}
    engine = database.connect(database.sqlite_url(folder / "store.sqlite"))
    with engine.begin() as connection:
        provenance = PROVENANCE.model_dump_json()
        runs = [{"name": f"run-{n}", "config": "{}", "config_hash": "0", "provenance": provenance} for n in range(5)]
        connection.execute(insert(RUNS), [add_checksum(RUNS, run) for run in runs])
        connection.execute(insert(PAGES), [{"key": content_key(page), "body": page}])
        connection.execute(insert(TASKS), [{"key": key, "body": body} for key, body in tasks.items()])
        connection.execute(insert(EPISODES), [add_checksum(EPISODES, row) for row in rows])
        connection.execute(
            insert(STEPS),
            [add_checksum(STEPS, {"episode": row["id"], "number": n, **step}) for row in rows for n in range(steps)],
        )
    engine.dispose()
