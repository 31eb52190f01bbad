"""The headline tables as sheets: agents (Best-of-Q, Table 2), domains (Tables 6 to 8), prices (Table 13)."""

from collections.abc import Mapping

from bestofq.reports.costs import Prices
from bestofq.reports.domains import DIFFERENCES, DomainTable
from bestofq.reports.origin import Origin
from bestofq.reports.rows import APART
from bestofq.reports.sheet import Cell, Column, Row, Sheet
from bestofq.reports.stats import Estimate, Interval, Measure
from bestofq.reports.table import ResultTable, outcome_words


def result_sheet(table: ResultTable, made: Mapping[str, Origin]) -> Sheet:
    """Table 2."""
    return Sheet(
        name="agents",
        title="Success and steps of each agent (Best-of-Q, Table 2)",
        columns=(
            Column(name="agent"),
            Column(name="success", percent=True),
            Column(name="± over runs", percent=True),
            Column(name="steps for success"),
            Column(name="± of steps"),
            Column(name="difference", percent=True, signed=True),
            Column(name="tasks"),
            Column(name="episodes"),
            Column(name="outcomes"),
        ),
        rows=tuple(
            Row(
                cells=(
                    row.agent,
                    Measure(value=row.success.mean, interval=row.interval),
                    row.success.error,
                    *steps_cells(row.steps_for_success, row.steps_interval),
                    row.difference,
                    row.tasks,
                    row.episodes,
                    outcome_words(row.outcomes),
                ),
                origin=made.get(row.agent),
            )
            for row in table.rows
        ),
        notes=(
            "In brackets: 95 % bootstrap over tasks; a number of one task alone has none.",
            *(note for note in table.notes if not note.startswith("Tokens")),  # no column of theirs here
        ),
    )


def steps_cells(steps: Estimate | None, interval: Interval | None) -> tuple[Cell, Cell]:
    """Steps with their interval over tasks, and their standard error over runs."""
    return (None, None) if steps is None else (Measure(value=steps.mean, interval=interval), steps.error)


def domain_sheet(table: DomainTable, made: Mapping[str, Origin]) -> Sheet:
    """Tables 6 to 8, a row a domain and agent, so that each is one number with its interval."""
    return Sheet(
        name="domains",
        title="Success by domain (Best-of-Q, Tables 5 to 8)",
        columns=(
            Column(name="domain"),
            Column(name="agent"),
            Column(name="tasks"),
            Column(name="episodes"),
            Column(name="success", percent=True),
            Column(name="± over runs", percent=True),
            *([Column(name="difference", percent=True, signed=True)] if table.compared else []),
        ),
        rows=tuple(
            Row(
                cells=(
                    row.domain,
                    agent,
                    cell.tasks,
                    cell.counted,
                    Measure(value=cell.success.mean if cell.success else None, interval=cell.interval),
                    cell.success.error if cell.success else None,
                    *([cell.difference] if table.compared else []),
                ),
                origin=made.get(agent),
            )
            for row in table.rows
            for agent, cell in zip(table.agents, row.cells, strict=True)
        ),
        notes=(
            "95 % bootstrap over the domain's tasks; where all came out alike, the exact bound.",
            "±: standard error over runs.",
            *([APART] if table.apart else []),
            *table.judging_notes,
            *([DIFFERENCES.format(table.baseline)] if table.compared else []),
        ),
    )


def price_sheet(prices: Prices) -> Sheet:
    """Table 13: what tokens cost that have no price in the store."""
    return Sheet(
        name="prices",
        title="Prices, USD per million tokens (Best-of-Q, Table 13)",
        columns=(Column(name="role"), Column(name="in", digits=2), Column(name="out", digits=2)),
        rows=tuple(Row(cells=(role, usd_in, usd_out)) for role, (usd_in, usd_out) in prices.items()),
    )
