import csv
import io
from pathlib import Path

import pytest
from report_nouns import PROVENANCE, record, row_of, task
from rich.console import Console

from bestofq.core.decision import Outcome
from bestofq.core.errors import DataError
from bestofq.reports.domains import ALL, Domains, domain_grid, domain_of, domain_results
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection
from bestofq.reports.success import agent_results, count_judged
from bestofq.reports.table import Table
from bestofq.store.store import Store


async def test_rows_are_domains_and_columns_agents(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        await store.begin_run("eval", {}, PROVENANCE)
        for repeat in (0, 1):
            await record(store, "prompting", task("Soup [x]--0"), repeat, 1)
            await record(store, "prompting", task("Soup [x]--1"), repeat, 1, "success" if repeat else "failure")
            await record(store, "prompting", task("Bread--0"), repeat, 1, "unparseable" if repeat else "blocked")
            await record(store, "random", task("Bread--0"), repeat, 1, "unjudged")
        await record(store, "prompting", task("Bread--1"), 0, 1, "infra_error")
        table = domain_results(store)
        by_first = domain_results(store, by=lambda name: name[0])
        with pytest.raises(DataError, match=r"none of the 2 .* 'random' has a verdict: run `bestofq judge`"):
            agent_results(store, Selection(agents=["random"]))
        row = agent_results(store, Selection(agents=["prompting"])).rows[0]
    assert table.agents == ("prompting", "random")
    assert [(row.domain, row.tasks) for row in table.rows] == [("Bread", 1), ("Soup [x]", 2), (ALL, 3)]
    (bread, random), (soup, _) = (row.cells for row in table.rows[:2])
    assert soup.success is not None
    assert (soup.success.mean, soup.success.error, soup.success.runs) == (0.75, 0.25, 2)
    assert (count_judged(soup.outcomes), soup.tasks) == (4, 2)
    assert bread.success is not None
    assert (bread.success.mean, bread.success.error, count_judged(bread.outcomes)) == (0.0, None, 1)
    assert bread.outcomes == {"blocked": 1, "unparseable": 1, "infra_error": 1}
    assert (random.success, random.outcomes) == (None, {"unjudged": 2})
    total = table.rows[-1].cells[0]
    assert total.success is not None
    assert (total.success.mean, count_judged(total.outcomes)) == pytest.approx(
        ((0 + 1 + 1 / 2) / 3, 5)
    )  # over tasks: runs differ in theirs
    assert (row.success, count_judged(row.outcomes), row.episodes) == (total.success, 5, 5)
    assert [row.domain for row in by_first.rows] == ["B", "S", ALL]
    assert by_first.rows[1].cells == table.rows[1].cells
    assert "| Soup [x] | 2 | 75.0 ± 25.0 | – |" in domain_grid(table).to_markdown().splitlines()
    assert Domains.model_validate_json(table.model_dump_json()) == table
    console = Console(file=io.StringIO(), width=200)
    console.print(domain_grid(table).with_title("WebVoyager"))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    assert "75.0 ± 25.0" in said
    assert "prompting: 3 success, 1 failure, 1 blocked (of 5); apart: 1 unparseable, 1 infra error." in table.notes
    assert any("1 unparseable and 2 unjudged episodes are left out" in note for note in table.notes)


async def test_agents_are_compared_in_each_domain_on_the_tasks_of_both(tmp_path: Path) -> None:
    outcomes: dict[str, tuple[Outcome, Outcome]] = {  # of prompting and q
        "Soup--0": ("failure", "success"),
        "Soup--1": ("success", "success"),
        "Bread--0": ("success", "failure"),
    }
    with Store.open(tmp_path) as store:
        await store.begin_run("eval", {}, PROVENANCE)
        for name, both in outcomes.items():
            for agent, outcome in zip(("prompting", "q"), both, strict=True):
                await record(store, agent, task(name), 0, 1, outcome)
        await record(store, "q", task("Soup--2"), 0, 1, "failure")  # which prompting never tried
        await record(store, "q", task("Fish--0"), 0, 1)
        table = domain_results(store, Selection(baseline="prompting"))
        whole = row_of(agent_results(store, Selection(baseline="prompting")), "q").difference
        alone = domain_results(store)
        found = gather(store, Selection(baseline="prompting"))
        plain = gather(store)
    cells = {row.domain: row.cells for row in table.rows}
    assert all(base.difference is None for base, _ in cells.values())
    soup, bread = cells["Soup"][1].difference, cells["Bread"][1].difference
    assert soup is not None
    assert (soup.mean, soup.low, soup.high, soup.tasks) == (0.5, 0.0, 1.0, 2)  # 0 or 1 a task, two tasks
    assert bread is not None
    assert (bread.mean, bread.low, bread.tasks) == (-1.0, -1.0, 1)
    assert bread.high == pytest.approx(-1 + 2 * 0.975)  # the exact bound of one task
    assert cells["Fish"][1].difference is None
    assert cells[ALL][1].difference == whole
    lines = domain_grid(table).to_markdown().splitlines()
    assert lines[0] == "| domain | tasks | prompting % | q % | q − prompting % |"
    assert "| Soup | 3 | 50.0 | 66.7 | +50.0 [+0.0, +100.0] |" in lines
    assert any("paired by task" in note for note in table.notes)
    assert Domains.model_validate_json(table.model_dump_json()) == table
    console = Console(file=io.StringIO(), width=200)
    console.print(domain_grid(table))
    assert isinstance(console.file, io.StringIO)
    assert "+50.0 [+0.0, +100.0]" in console.file.getvalue()
    assert "−" not in domain_grid(alone).to_markdown()
    (table,) = (table for table in found.tables if table.name == "domains")
    (row,) = (row for row in csv.DictReader(table.to_csv().splitlines()) if row["domain"] + row["agent"] == "Soupq")
    assert (row["difference"], row["difference low"], row["difference high"]) == ("0.5", "0.0", "1.0")
    assert "+50.0 [+0.0, +100.0]" in table.to_markdown()
    assert Table.model_validate_json(table.to_json()) == table
    (table,) = (table for table in plain.tables if table.name == "domains")
    assert "difference %" not in table.heads


async def test_nothing_is_finished(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, pytest.raises(DataError, match="no episode of any agent"):
        domain_results(store)


def test_a_domain_is_what_stands_before_the_number() -> None:
    assert [domain_of(name) for name in ("Google Map--12", "a--b--3", "kettle")] == ["Google Map", "a--b", "–"]
