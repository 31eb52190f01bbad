"""Stand between any agent and its OpenAI-compatible endpoint: record its episodes, or choose its actions.

Give the agent http://127.0.0.1:8770/v1 for its base URL, or http://127.0.0.1:8770/sessions/NAME/v1 to name its
episode. POST {"success": true} to /sessions/NAME/outcome says how one ended; browser-use's own judge is understood.
Keys pass through and are never stored. Then: bestofq train --store runs/serve --run serve --out q
"""

import asyncio
from contextlib import suppress
from socket import socket
from typing import Annotated

import uvicorn
from pydantic import JsonValue, TypeAdapter
from typer import Option

from bestofq import __version__
from bestofq.cli.options import SERVED, Files, Place, Stored, Text
from bestofq.core.decision import Provenance
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.loading import validate_settings
from bestofq.models.endpoint import address_of
from bestofq.recipes.identity import this_command
from bestofq.reports.rollout import replay
from bestofq.rollouts.console import console
from bestofq.serve.app import LEAVING, ServeConfig, proxy_app
from bestofq.serve.sessions import Sessions
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.viewer.server import listen

IDLE = 120  # seconds until a client's connection is closed: 5, the default, are fewer than many agents take for a step


def serve(
    upstream: Annotated[str, Option(help="The endpoint that the agent used so far, with its /v1.")],
    shadow: Annotated[Place, Option(metavar="Q", help="Keep what this Q-function would have chosen.")] = None,
    rank: Annotated[Place, Option(metavar="Q", help="Answer with what this Q-function chooses.")] = None,
    ab: Annotated[bool, Option("--ab", help="With --rank: half of the sessions without it, as the baseline.")] = False,
    rollout: Annotated[
        bool,
        Option("--rollout", help="With --rank: a tenth of the sessions, then more or none, as their outcomes say."),
    ] = False,
    insist: Annotated[
        bool, Option("--insist", help="With --rank: without its gate, even if the gate is shut.")
    ] = False,
    embedder: Annotated[Text, Option(help="The model that Q was trained with (model.embedder).")] = None,
    n: Annotated[int, Option("--n", min=1, help="Candidates a step, with --shadow, --rank and --explore.")] = 3,
    temperature: Annotated[float, Option(min=0, help="Of the further candidates, at least.")] = 1.0,
    deadline: Annotated[float, Option(min=1, help="Seconds after which what has come is ranked.")] = 45.0,
    explore: Annotated[
        float, Option(min=0, max=0.9, help="Answer this share of steps with another reply, so that the logs can tell.")
    ] = 0.0,
    explore_steps: Annotated[int, Option(min=1, help="With --explore: such steps in a session, at most.")] = 3,
    plain: Annotated[
        bool, Option("--plain", help="Requests without tools or a schema ask for actions, too, in plain words or JSON.")
    ] = False,
    repair: Annotated[bool, Option(help="Ask once more where no reply can be read, with what is wrong.")] = True,
    run: Annotated[Text, Option(help="Name of the run. Default: serve; with a Q-function, its checkpoint.")] = None,
    store: Stored = SERVED,
    files: Files = None,
    port: Annotated[int, Option(min=0, max=65535, help="Of the loopback interface; 0: any free one.")] = 8770,
) -> None:
    if rank and shadow:
        raise ConfigError("--rank answers and --shadow only watches: give one of them")
    if (ab or rollout) and not rank:
        raise ConfigError("--ab and --rollout compare answers by a Q-function with those without: give --rank Q, too")
    if explore and (rank or shadow):
        raise ConfigError("--explore records, and Q chooses nothing meanwhile: leave --rank and --shadow out")
    if rank and not insist:
        from bestofq.cli.estimate import refuse_useless  # with PyTorch, which recording does not need

        refuse_useless(rank)
    mode = "rank" if rank else "shadow" if shadow else "record"
    asked = {"mode": mode, "n": n, "temperature": temperature, "deadline": deadline, "repair": repair}
    asked |= {"explore": explore, "explore_steps": explore_steps, "plain": plain}
    config = validate_settings(TypeAdapter(ServeConfig), asked)
    try:
        address_of(upstream)
    except ValueError as error:
        raise InputError(f"--upstream {error}") from None
    scorer = None
    if q := rank or shadow:
        from bestofq.recipes.ranker import Ranker  # with PyTorch

        scorer = Ranker.load(q, gate="off" if insist else "calibrated", embedder=embedder).scorer
    own = "explore" if explore else "prompting"
    agents = (own, "best-of-q") if ab or rollout else ("best-of-q",) if rank else (own,)
    made = Provenance(version=__version__, command=this_command())
    with listen("127.0.0.1", port) as listener, Store.open(Location.of(store, files)) as opened:
        checkpoint = scorer.checkpoint if scorer else None
        run = run or checkpoint or "serve"  # a run has one Q-function
        settings: dict[str, JsonValue] = {
            "chat": {"model": f"the model behind {upstream}"},  # so that training asks what embeds its texts
            "serve": config.model_dump(mode="json") | ({"rollout": True} if rollout else {}),
            "q": checkpoint,
        }
        asyncio.run(opened.begin_run(run, settings, made))
        for agent in agents:
            asyncio.run(opened.interrupt(run, agent))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        console.print(f"{address} stands before {upstream}: {config.mode} (stop it with Ctrl-C)", soft_wrap=True)
        state = replay(opened.summaries(run=run), agents[-1])[-1] if rollout else None
        sessions = Sessions(opened, run, made, agents, state)
        if state:
            console.print(state.describe(), highlight=False)
        app = proxy_app(config, upstream, sessions, scorer)
        server = uvicorn.Config(
            app, log_level="critical", access_log=False, timeout_keep_alive=IDLE, timeout_graceful_shutdown=LEAVING
        )
        with suppress(KeyboardInterrupt):
            _TellingServer(server, sessions, run).run(sockets=[listener])


class _TellingServer(uvicorn.Server):
    """When it stops, it says what its sessions lack. After that uvicorn raises the signal that stopped it again, and
    SIGTERM ends the process."""

    def __init__(self, config: uvicorn.Config, sessions: Sessions, run: str) -> None:
        super().__init__(config)
        self._sessions, self._run = sessions, run

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        await super().shutdown(sockets)
        ended = self._sessions.ended
        if unknown := ended["unjudged"]:
            console.print(
                f"{unknown} of {ended.total()} sessions ended without an outcome and teach nothing yet: POST "
                f'{{"success": true}} to /outcome at the end of each, or run `bestofq judge --run {self._run}`',
                style="yellow", highlight=False, markup=False,
            )  # fmt: skip
