"""`bestofq export`: stored episodes for other tools."""

from bestofq.cli.options import Export, console, refuse_given
from bestofq.cli.writing import check_out
from bestofq.config.settings import AgentQSettings
from bestofq.interop.exporting import (
    PairOptions,
    Selected,
    export_atif,
    export_conversations,
    export_preferences,
    export_steps,
)
from bestofq.store.store import Store

_UNITS = {"steps": "steps", "preferences": "pairs", "conversations": "conversations", "atif": "trajectories"}


def export_episodes(wanted: Export) -> None:
    """Write them, and say how many."""
    if wanted.kind != "preferences":
        refuse_given(wanted, f"of {wanted.kind}", "source", "alpha", "threshold")
    if wanted.kind != "conversations":
        refuse_given(wanted, f"of {wanted.kind}", "failures")
    if wanted.kind != "atif":
        check_out(wanted.out)
    selected = Selected(run=wanted.run, agent=wanted.agent, split=wanted.split)
    with Store.open(wanted.where, read_only=True) as store:
        match wanted.kind:
            case "steps":
                count = export_steps(store, selected, wanted.out)
            case "conversations":
                count = export_conversations(store, selected, wanted.out, failures=wanted.failures)
            case "preferences":
                count = export_preferences(store, selected, wanted.out, _pairs(wanted))
            case "atif":
                count = export_atif(store, selected, wanted.out)
    console.print(f"{count:,} {_UNITS[wanted.kind]} written to {wanted.out}", soft_wrap=True, markup=False)


def _pairs(wanted: Export) -> PairOptions:
    defaults = AgentQSettings()
    return PairOptions(
        source=wanted.source or "trees",
        alpha=defaults.alpha if wanted.alpha is None else wanted.alpha,
        threshold=defaults.threshold if wanted.threshold is None else wanted.threshold,
    )
