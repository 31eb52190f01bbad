"""In front of agents that are not ours."""

from typing import Annotated

from typer import Option

from bestofq.cli.options import SERVED, Files, Place, Stored, Text, console
from bestofq.store.location import Location


def serve(
    upstream: Annotated[str, Option(help="The endpoint that the agent used so far, with its /v1.")],
    shadow: Annotated[Place, Option(metavar="Q", help="Keep what this Q-function would have chosen.")] = None,
    rank: Annotated[Place, Option(metavar="Q", help="Answer with what this Q-function chooses.")] = None,
    ab: Annotated[bool, Option("--ab", help="With --rank: half of the sessions without it, as the baseline.")] = False,
    insist: Annotated[
        bool, Option("--insist", help="With --rank: even where its estimate says that it harms.")
    ] = False,
    embedder: Annotated[Text, Option(help="The model that Q was trained with (model.embedder).")] = None,
    n: Annotated[int, Option("--n", min=1, help="Candidates a step, with --shadow and --rank.")] = 3,
    temperature: Annotated[float, Option(min=0, help="Of the further candidates, at least.")] = 1.0,
    deadline: Annotated[float, Option(min=1, help="Seconds after which what has come is ranked.")] = 45.0,
    repair: Annotated[bool, Option(help="Ask once more where no reply can be read, with what is wrong.")] = True,
    run: Annotated[str, Option(help="Name of the run.")] = "serve",
    store: Stored = SERVED,
    files: Files = None,
    port: Annotated[int, Option(min=0, max=65535, help="Of the loopback interface; 0: any free one.")] = 8770,
) -> None:
    """Stand between any agent and its OpenAI-compatible endpoint: record its episodes, or choose its actions.

    Give the agent http://127.0.0.1:8770/v1 for its base URL, or http://127.0.0.1:8770/sessions/NAME/v1 to name its
    episode. POST {"success": true} to /sessions/NAME/outcome says how one ended; browser-use's own judge is understood.
    Keys pass through and are never stored. Then:
    bestofq train --store runs/serve --run serve --set model.embedder=NAME --out q
    """
    from bestofq.cli.estimating import refuse_harmful
    from bestofq.cli.serving import serve_before
    from bestofq.core.errors import ConfigError

    if rank and shadow:
        raise ConfigError("--rank answers and --shadow only watches: give one of them")
    if rank and not insist:
        refuse_harmful(rank)
    mode = "rank" if rank else "shadow" if shadow else "record"
    asked = {"mode": mode, "n": n, "temperature": temperature, "deadline": deadline, "repair": repair}
    where = Location.of(store, files)
    serve_before(upstream, rank or shadow, embedder, asked, arms=ab, run=run, where=where, port=port, console=console)
