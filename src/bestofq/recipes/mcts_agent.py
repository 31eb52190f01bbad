"""The agent that searches before each step: Agent Q + MCTS (5.1, 6.2), on whatever model proposes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.learned import Values
from bestofq.agents.selectors import GreedySelector
from bestofq.build.agents import make_feedback, make_proposer, make_q_scorer
from bestofq.build.models import Models
from bestofq.build.open_suite import OpenSuite
from bestofq.build.settings import BestOfQSettings
from bestofq.core.errors import ConfigError
from bestofq.core.protocols import Scorer
from bestofq.search.config import SearchConfig
from bestofq.search.tree_scorer import FoundProposer, TreeScorer


def search_config(settings: BestOfQSettings, suite: OpenSuite, chosen: SearchConfig | None = None) -> SearchConfig:
    """`chosen` or the configured search, no deeper than the suite's episodes; in a sandbox where the suite is one."""
    chosen = chosen or settings.agent_q.search
    depth = min(chosen.depth, suite.step_limit)
    return chosen.model_copy(update={"depth": depth, "sandboxed": chosen.sandboxed or suite.sandboxed})


def ranker(models: Models, values: Values | None) -> Scorer | None:
    """Who gives a node's actions their Q̂: the model itself (5.1.1), a learned Q without any question, or nobody.

    ConfigError where the learned Q is asked for and none is given.
    """
    match models.settings.agent_q.feedback:
        case "model":
            return make_feedback(models)
        case "q":
            if values is None:
                raise ConfigError("agent_q.feedback=q ranks by a Q-function: give --q a folder made by `bestofq train`")
            return make_q_scorer(models, values)
        case "none":
            return None


@asynccontextmanager
async def searching_agent(models: Models, suite: OpenSuite, values: Values | None) -> AsyncIterator[Agent]:
    """An agent whose scorer is a search; its environments are closed when the context ends."""
    config = search_config(models.settings, suite, models.settings.agent_q.inference)
    scorer = TreeScorer(
        suite.make_env,
        proposer=make_proposer(models),
        ranker=ranker(models, values),
        config=config,
        irreversible=suite.irreversible,
        judge=suite.judge,
    )
    try:
        yield Agent(
            name="mcts",
            proposer=FoundProposer(scorer, make_proposer(models)),
            scorer=scorer,
            selector=GreedySelector(),
            n_candidates=config.candidates,
        )
    finally:
        await scorer.close()
