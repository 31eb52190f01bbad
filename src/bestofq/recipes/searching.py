"""The agent that searches before each step: Agent Q + MCTS (5.1, 6.2), on whatever model proposes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bestofq.agents.agent import Agent
from bestofq.agents.selectors import GreedySelector
from bestofq.core.errors import ConfigError
from bestofq.core.protocols import Scorer
from bestofq.learning.value import ValueModel
from bestofq.recipes.parts import Parts
from bestofq.recipes.worlds import World
from bestofq.search.config import SearchConfig
from bestofq.search.tree_scorer import FoundProposer, TreeScorer


def search_config(parts: Parts, world: World, chosen: SearchConfig | None = None) -> SearchConfig:
    """`chosen` or the configured search, no deeper than the suite's episodes; in a sandbox where the world is one."""
    chosen = chosen or parts.settings.agent_q.search
    depth = min(chosen.depth, parts.step_limit)
    return chosen.model_copy(update={"depth": depth, "sandboxed": chosen.sandboxed or world.sandboxed})


def ranker(parts: Parts, values: ValueModel | None) -> Scorer | None:
    """Who gives a node's actions their Q̂: the model itself (5.1.1), a learned Q without any question, or nobody.

    ConfigError where the learned Q is asked for and none is given.
    """
    match parts.settings.agent_q.feedback:
        case "model":
            return parts.feedback()
        case "q":
            if values is None:
                raise ConfigError("agent_q.feedback=q ranks by a Q-function: give --q a folder made by `bestofq train`")
            return parts.values_scorer(values)
        case "none":
            return None


@asynccontextmanager
async def searching_agent(parts: Parts, world: World, values: ValueModel | None) -> AsyncIterator[Agent]:
    """An agent whose scorer is a search; its environments are closed when the context ends."""
    config = search_config(parts, world, parts.settings.agent_q.inference)
    scorer = TreeScorer(
        world.make_env,
        proposer=parts.proposer(),
        ranker=ranker(parts, values),
        config=config,
        irreversible=world.irreversible,
        judge=world.judge,
    )
    try:
        yield Agent(
            name="mcts",
            proposer=FoundProposer(scorer, parts.proposer()),
            scorer=scorer,
            selector=GreedySelector(),
            n_candidates=config.candidates,
        )
    finally:
        await scorer.close()
