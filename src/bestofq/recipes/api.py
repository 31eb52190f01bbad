"""What a program calls in one line: play a suite, search a task, do one thing on any page."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from pydantic import JsonValue, TypeAdapter
from starlette.types import ASGIApp

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.browser.browser import Browser
from bestofq.config.context import irreversible_of
from bestofq.core.decision import Decision, Episode, Provenance, State
from bestofq.core.errors import ConfigError
from bestofq.core.loading import validate_settings
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env, EnvFactory, Localizer, Proposer, Scorer, Suite
from bestofq.core.tree import SearchTree
from bestofq.core.usage import merge_usage
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import AnySuiteSettings, make_suite
from bestofq.envs.web import Approve, Evaluator, WebEnv
from bestofq.recipes import run_goal
from bestofq.recipes.identity import this_command
from bestofq.rollouts.episode import EpisodeOptions
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.search.backtracking import Backtracker
from bestofq.search.config import SearchConfig
from bestofq.search.mcts import Search
from bestofq.search.tree import MutableTree
from bestofq.store.configuration import Owned
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

log = logging.getLogger(__name__)


def load_suite(name: str, **settings: object) -> Suite:
    """The suite of that name, or of `my_package.my_module:make_suite`, with settings as under `suite` in a file.
    ConfigError on a setting that is unknown, impossible or the commands' alone, and as `make_suite`."""
    if unread := [one for one in ("step_limit", "concurrency", "only", "train_tasks") if one in settings]:
        raise ConfigError(f"suite.{unread[0]} is read by the commands alone: leave it out of load_suite")
    return make_suite(validate_settings(TypeAdapter(AnySuiteSettings), {"name": name, **settings}))


@asynccontextmanager
async def open_site(
    app: ASGIApp, evaluate: Evaluator | None = None, *, screenshots: bool = False
) -> AsyncIterator[tuple[str, EnvFactory]]:
    """Serve a site of your own on loopback: its address, and what makes environments on it in a real Chromium.
    `evaluate` gives the reward, and whether the task has ended, after every step."""
    async with serve_app(app) as url, Browser.launch() as browser:

        async def make_env() -> Env:
            return WebEnv(browser, screenshots=screenshots, evaluate=evaluate)

        yield url, make_env


async def play(
    agent: Agent,
    suite: Suite,
    store: Store,
    *,
    split: Split = "dev",
    tasks: int = 10,
    repeats: int = 1,
    run: str = "example",
    concurrency: int = 16,
) -> list[EpisodeSummary]:
    """Play and keep the first `tasks` of a split `repeats` times; the same call continues, and warns where nothing is
    left to play. DataError where the run has an agent of this name with other parts or another N; errors as `run_many`.
    """
    made = await _begin(store, run, suite, {agent.name: _parts_of(agent)})
    before = store.load_finished_keys(run, agent.name)
    async with suite.open() as make_env:
        chosen = (await suite.tasks(split))[:tasks]
        options = RunOptions(
            step_limit=suite.step_limit, judge=suite.judge, provenance=made, irreversible=irreversible_of(suite)
        )
        done = await run_many(
            chosen, make_env, agent, store=store, run=run, repeats=repeats, concurrency=concurrency, options=options
        )
    if done and len(done) == len(chosen) * repeats and before.issuperset(one.key for one in done):
        log.warning(
            "all %d episodes of %s were stored already in the run %r, and nothing was played: after a change of the "
            "agent give another run=",
            len(done),
            agent.name,
            run,
        )
    return done


async def search_tree(
    suite: Suite,
    task: Task,
    proposer: Proposer,
    store: Store,
    *,
    ranker: Scorer | None = None,
    localizer: Localizer | None = None,
    run: str = "search",
    **settings: object,
) -> SearchTree:
    """A task's search tree by MCTS (Agent Q, 5.1), kept in the store instead of an earlier one. `ranker` gives Q̂
    (None: nobody); `localizer` finds the elements that actions name in words; `settings` are `SearchConfig`'s.
    ConfigError on these."""
    config = validate_settings(TypeAdapter(SearchConfig), settings)
    await _begin(store, run, suite)
    async with suite.open() as make_env, store.trees.grow_tree(run, task):
        async with aclosing(Backtracker(make_env, task, config, irreversible_of(suite))) as backtracker:
            root = await backtracker.start()
            tree = MutableTree(task, root)
            state = State(task=task, observation=root)
            search = Search(
                tree,
                state,
                backtracker,
                proposer=proposer,
                ranker=ranker,
                judge=suite.judge,
                localizer=localizer,
                depth=suite.step_limit,
            )
            await search.run()
        found = tree.to_tree(merge_usage(search.usage))
        await store.trees.save(run, found)
    return found


async def visit(
    goal: str,
    url: str,
    agent: Agent,
    store: Store,
    *,
    approve: Approve | None = None,
    on_decision: Callable[[State, Decision], None] | None = None,
    screenshots: bool = True,
    ask_forms: bool = False,
) -> Episode:
    """Do one thing on any web page. Whether the goal was reached stays open. InputError if `url` is no web address.

    `approve` may refuse what seems irreversible, and with `ask_forms` also what sends a form.
    """
    task, config = run_goal.page_task(goal, url), {"agent": agent.name}
    options = EpisodeOptions(judge=run_goal.UserJudge(), on_decision=on_decision)
    async with Browser.launch() as browser:
        env = WebEnv(browser, screenshots=screenshots, approve=approve, forms=ask_forms)
        return await run_goal.visit(env, agent, task, store=store, config=config, options=options)


async def _begin(store: Store, run: str, suite: Suite, agents: Owned | None = None) -> Provenance:
    made = Provenance(version=__version__, command=this_command())
    await store.begin_run(run, {"suite": suite.name}, made, agents=agents)
    return made


def _parts_of(agent: Agent) -> dict[str, JsonValue]:
    """What a run keeps of an agent: N, and the classes of its parts."""
    parts = {name: getattr(agent, name) for name in ("proposer", "scorer", "selector", "localizer")}
    kinds = {f"{name}_class": type(one) for name, one in parts.items() if one is not None}
    return {"n": agent.n_candidates, **{name: f"{kind.__module__}.{kind.__qualname__}" for name, kind in kinds.items()}}
