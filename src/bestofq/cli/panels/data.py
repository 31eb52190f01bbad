"""Tasks, and a local model for others to call."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import BaseUrl, Budget, Config, Data, DryRun, Given, Model, Set, SuiteName, Tasks, refuse_given

WriteOption = partial(Option, rich_help_panel="With --write")


def tasks(
    suite: SuiteName = None,
    split: Annotated[str | None, Option(help="train, dev or test. Default: each.")] = None,
    tasks: Tasks = None,
    data: Data = None,
    config: Config = None,
    set_: Set = None,
    today: Annotated[str | None, Option(help="YYYY-MM-DD, for dates in tasks. Default: today.")] = None,
    write: Annotated[
        Path | None, WriteOption(help="jsonl file that new tasks are added to: a model writes them.")
    ] = None,
    seed_domain: Annotated[
        str | None, WriteOption(help="Whose tasks of --data are the seeds, such as 'Google Flights'.")
    ] = None,
    domain: Annotated[list[str] | None, WriteOption(help="NAME=URL where the new tasks are done. Repeatable.")] = None,
    held_out: Annotated[
        list[Path] | None, WriteOption(help="Another file than --data whose tasks no new one may resemble. Repeatable.")
    ] = None,
    count: Annotated[int | None, WriteOption(min=1, help="Tasks a domain. Default: 40, as in Table 9.")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    budget: Budget = None,
    dry_run: DryRun = False,
) -> None:
    """List a suite's tasks; or with --write have a model write tasks for new sites from those of another. Resumable.

    Of WebVoyager the list also names the tasks whose date is past. With --write, --set takes the settings of writing,
    such as near=0.5 or chat.max_tokens=3000.
    """
    from bestofq.cli.settings import day_of
    from bestofq.cli.tasks import Writing, list_tasks, write_tasks
    from bestofq.core.errors import ConfigError

    if write is None:
        refuse_given("without --write", seed_domain=seed_domain, domain=domain, held_out=held_out, count=count)
        refuse_given("without --write", model=model, base_url=base_url, budget=budget, dry_run=dry_run)
        which = Given(config=config, set_=set_, suite=suite, data=data)
        list_tasks(which, split=split, names=tasks, today=day_of(today))
        return
    for option, value in (("--data", data), ("--seed-domain", seed_domain), ("--domain", domain), ("--model", model)):
        if not value:
            raise ConfigError(f"--write needs {option}")
    assert data is not None
    options = Writing(
        seeds=data,
        seed_domain=seed_domain or "",
        domains=domain or (),
        held_out=held_out or (),
        out=write,
        today=day_of(today),
        budget=budget,
    )
    given = [f"chat.model={model}", *([f"chat.base_url={base_url}"] if base_url else [])]
    given += [f"count={count}"] if count else []
    write_tasks(options, config, [*given, *(set_ or ())], dry_run=dry_run)


def serve_model(
    model: Model = None,
    port: Annotated[int, Option(min=0, max=65535, help="Of the loopback interface.")] = 8000,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Serve a local model behind an OpenAI-compatible endpoint on loopback; its seeds give the draws made here."""
    import uvicorn

    from bestofq.cli.settings import models_of
    from bestofq.models.serving import model_app

    uvicorn.run(model_app(models_of(Given(config=config, set_=set_, model=model)).local), host="127.0.0.1", port=port)
