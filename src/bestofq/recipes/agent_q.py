"""Agent Q (arXiv 2408.07199, Algorithm 1): search each task's tree → preference pairs → DPO → the next round."""

from collections import deque
from pathlib import Path

from bestofq.build.context import RunContext
from bestofq.build.models import Models
from bestofq.core.errors import ConfigError
from bestofq.core.loading import extra
from bestofq.core.preferences import PreferencePair
from bestofq.recipes.policy_training import need_pairs, step_pairs, tune
from bestofq.recipes.tree_search import search_training

SEARCH_RUN = "search"


async def agent_q(context: RunContext, out: Path) -> Models:
    """Algorithm 1: rounds of search, pairs, DPO; the last policy. What an earlier call finished is not done again.

    Raises what `check` and `training_tasks` do, before the first search.
    """
    settings, console = context.settings.agent_q, context.console
    check(context.models)
    buffer: deque[list[PreferencePair]] = deque(maxlen=None if settings.replay is None else settings.replay + 1)
    for number in range(1, settings.rounds + 1):
        trees = await search_training(context, round_run(number), part=number - 1, of=settings.rounds)
        buffer.append(list(step_pairs(context.models, trees)))
        need_pairs(buffer[-1], len(trees))
        replayed = [pair for earlier in list(buffer)[:-1] for pair in earlier]  # with their own likelihoods (3.2.2)
        folder = tune(context.models, [*replayed, *buffer[-1]], out / f"policy-{number}", console)
        console.print(
            f"round {number} of {settings.rounds}: {len(buffer[-1]):,} pairs of {len(trees)} trees"
            f"{f' and {len(replayed):,} of earlier rounds' if replayed else ''}; the policy: {folder}"
        )
        context = context.playing(folder)
    return context.models


def check(models: Models) -> None:
    """Refuses what Algorithm 1 cannot do, before the minutes that a search takes.

    ConfigError where nodes are to be ranked by a Q-function: it reads one model's embeddings, and each round makes
    another model; or where the model's tokens are not kept. SetupError without the extra that DPO needs, or the model.
    """
    if models.settings.chat is not None or models.settings.model.dialect != "composite":
        raise ConfigError(
            "Agent Q learns from the tokens of composite actions: give a local model that writes them, such as "
            "--model pocket-agentq --set model.dialect=composite, and no endpoint"
        )
    if models.settings.agent_q.feedback == "q":
        raise ConfigError(
            "agent_q.feedback=q ranks by a Q-function of one model, and each round makes another: "
            "choose agent_q.feedback=model, or go step by step (bestofq search, pairs, tune)"
        )
    extra("accelerate")
    _ = models.local.revision


def round_run(number: int) -> str:
    """The run of a round's searches; rounds count from 1."""
    return f"{SEARCH_RUN}-{number}"
