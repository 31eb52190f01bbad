"""Agent Q's comparison (arXiv 2408.07199, Figs. 3 and 6) on one suite, and what the paper does not have: a learned Q.

For each training seed: search trees on training tasks of its own → RFT, trajectory DPO and Agent Q from them; once more
without AI feedback (6.2's ablation). Then all policies on the same held-out tasks. No held-out reward reaches a policy
or a Q-function; the searches at inference see the outcome of their own rollouts, as in the paper (5.1, 6.2), and the
table says so.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer

from bestofq.agents.proposers import SamplingProposer
from bestofq.agents.scorers.learned import Values
from bestofq.cli.options import CommonOptions, Config, Data, Set
from bestofq.cli.shared import models_of
from bestofq.config.agents import AGENTS, AgentConfig, AgentKind, dialect_of
from bestofq.config.context import OpenSuite, open_suite
from bestofq.config.models import Models
from bestofq.core.language import Generation, Reply, Request
from bestofq.core.usage import Usage
from bestofq.models.local import LocalModel
from bestofq.recipes import policy_training
from bestofq.recipes.agent_q import grow_training_trees
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.identity import made_by
from bestofq.recipes.q_training import train_on_runs
from bestofq.reports.searches import search_rows
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from experiments.agent_q.methods import method_episodes, method_results, method_table, write_method_episodes
from experiments.figures import write_results

ZERO, RFT, DPO, BEAM, MCTS = "zero-shot", "RFT", "DPO", "DPO + beam", "MCTS"
REFERENCE_MCTS = "RFT + MCTS"
AGENT_Q, UNFED, AGENT_Q_MCTS = "Agent Q", "Agent Q, no feedback", "Agent Q + MCTS"
BEST_OF_Q, MCTS_Q = "Agent Q + learned Q", "Agent Q + MCTS, Q̂ learned"


@dataclass(frozen=True)
class BeamModel:
    """`LanguageModel` whose only reply is the likeliest that a beam search of width 4 finds: search over one action
    (4.1), by transformers' own `generate`."""

    model: LocalModel
    name: str

    @torch.inference_mode()
    async def generate(self, request: Request) -> Generation:
        local, prompt = self.model, self.model.encode(*request.messages)
        limits = {"num_beams": 4, "do_sample": False, "length_penalty": 0.0, "max_new_tokens": request.max_tokens}
        ids = local.model.generate(torch.tensor([prompt], device=local.device), **limits)[0, len(prompt) :]
        reply = Reply(local.tokenizer.decode(ids, skip_special_tokens=True), ids=tuple(ids.tolist()))
        return Generation((reply,), Usage(role=request.role, tokens_in=len(prompt), tokens_out=len(ids), calls=1))


def propose_by_beam(models: Models) -> SamplingProposer:
    model, dialect = BeamModel(models.local, models.local.name), dialect_of(models.settings)
    return SamplingProposer(model, max_new_tokens=models.settings.model.most_tokens, dialect=dialect)


AGENTS["beam"] = AgentConfig(single=True, propose=propose_by_beam)


class Pass(NamedTuple):
    """Of one method over the held-out tasks."""

    model: int  # the training seed
    run: str
    agent: str


ORDER = (ZERO, RFT, DPO, BEAM, UNFED, AGENT_Q, MCTS, REFERENCE_MCTS, AGENT_Q_MCTS, BEST_OF_Q, MCTS_Q)
"""The methods, as tables list them."""


async def compare_methods(
    models: Models, store: Store, out: Path, *, tasks: int, seeds: Sequence[int], from_rft: bool
) -> Mapping[str, list[Pass]]:
    """Return the passes of each method over `tasks` held-out tasks, for each of `seeds` a trained model a method.

    Trees, models and episodes are in `store` and `out`; what an earlier call finished is not done again. What needs no
    training is measured with seed 0 alone. `from_rft`: DPO and Agent Q begin from the RFT model (6.2), not from the
    base model (4.1).
    """
    passes: dict[str, list[Pass]] = {}
    async with open_suite(models) as suite:

        async def measure(
            method: str, seed: int, policy: Models, kind: AgentKind, values: Values | None = None
        ) -> None:
            run = f"{method} {seed}"
            await collect(policy, suite, store, run, Play(kind, values=values, split="test", limit=tasks))
            passes.setdefault(method, []).append(Pass(seed, run, kind))

        for seed in seeds:
            folder = out / f"seed-{seed}"
            if seed == 0:
                await measure(ZERO, seed, models, "prompting")
            trained = await _train(seeded(models, seed), suite, store, folder, seed, from_rft=from_rft)
            for method, policy in trained.items():
                await measure(method, seed, policy, "prompting")
            await measure(AGENT_Q_MCTS, seed, stop_at_success(trained[AGENT_Q]), "mcts")
            await measure(BEAM, seed, trained[DPO], "beam")
            if seed == 0:
                await measure(MCTS, seed, stop_at_success(models), "mcts")
            if from_rft:
                await measure(REFERENCE_MCTS, seed, stop_at_success(trained[RFT]), "mcts")
            explored, policy = f"values {seed}", trained[AGENT_Q]
            await collect(policy, suite, store, explored, Play("explore", policy.settings.seed_runs))
            values = train_on_runs(policy, store, [explored], folder / "q")
            await measure(BEST_OF_Q, seed, policy, "best-of-q", values)
            await measure(MCTS_Q, seed, stop_at_success(fed_by(policy, "q")), "mcts", values)
    return {method: passes[method] for method in ORDER if method in passes}


async def _train(
    base: Models, suite: OpenSuite, store: Store, folder: Path, seed: int, *, from_rft: bool
) -> dict[str, Models]:
    """The policies of one training seed, each of training tasks that no other seed sees."""
    part = 2 * seed
    trees = await grow_training_trees(base, suite, store, f"search {seed}", part=part)
    rft = base.with_model(policy_training.reinforce(base, trees, folder / "rft"))
    policy = base
    if from_rft:  # 6.2: the others begin from the RFT model
        policy, part = rft, part + 1
        trees = await grow_training_trees(policy, suite, store, f"search rft {seed}", part=part)
    unfed = fed_by(policy, "none")
    alone = await grow_training_trees(unfed, suite, store, f"search no feedback {seed}", part=part)
    learned = {
        DPO: (policy, list(policy_training.trajectory_pairs(policy, trees)), "dpo"),
        UNFED: (unfed, list(policy_training.step_pairs(unfed, alone)), "no-feedback"),
        AGENT_Q: (policy, list(policy_training.step_pairs(policy, trees)), "agent-q"),
    }
    policies = {RFT: rft}
    for method, (begun, pairs, name) in learned.items():
        policy_training.need_pairs(pairs, len(trees))
        console.print(f"{method}, seed {seed}: {len(pairs):,} pairs of {len(trees)} trees")
        policies[method] = policy.with_model(policy_training.tune(begun, pairs, folder / name))
    return policies


def seeded(models: Models, seed: int) -> Models:
    """The same with another seed, of the draws and of the training."""
    dpo = models.settings.agent_q.dpo.model_copy(update={"seed": seed})
    return _with_agent_q(models.with_settings(models.settings.model_copy(update={"seed": seed})), dpo=dpo)


def stop_at_success(models: Models) -> Models:
    """The same with searches that end after a rollout that the environment rewards, as at inference (5.1, 6.2)."""
    return _with_agent_q(models, search=models.settings.agent_q.search.model_copy(update={"stop_at_success": True}))


def fed_by(models: Models, feedback: str) -> Models:
    """The same with nodes ranked by another; without feedback Q is the searched one alone (Eq. 10 with α = 1)."""
    return _with_agent_q(models, feedback=feedback, **({"alpha": 1.0} if feedback == "none" else {}))


def _with_agent_q(models: Models, **changes: object) -> Models:
    agent_q = models.settings.agent_q.model_copy(update=changes)
    return models.with_settings(models.settings.model_copy(update={"agent_q": agent_q}))


def agent_q(
    results: Annotated[Path, typer.Option(help="Folder of the committed results.")],
    config: Config = None,
    set_: Set = None,
    out: Annotated[Path, typer.Option(help="Folder of the episodes and of what is learned.")] = Path("runs/experiment"),
    tasks: Annotated[int, typer.Option(min=2, help="Held-out test tasks.")] = 200,
    models: Annotated[int, typer.Option(min=1, help="Trained models of each method.")] = 3,
    from_rft: Annotated[bool, typer.Option("--from-rft", help="Begin from the RFT model (6.2).")] = False,
    data: Data = None,
) -> None:
    """Agent Q's comparison on held-out test tasks: RFT, DPO, search, and the policies that search trees teach."""
    policy, seeds = models_of(CommonOptions(config=config, set_=set_, data=data)), range(models)
    with Store.open(out) as store:
        passes = asyncio.run(compare_methods(policy, store, out, tasks=tasks, seeds=seeds, from_rft=from_rft))
        chosen, runs = policy.settings.agent_q, [run.name for run in store.runs()]
        searches = search_rows(store, runs, alpha=chosen.alpha, threshold=chosen.threshold)
        episodes = method_episodes(store, passes)
    episodes.sort(key=lambda e: (ORDER.index(e.method), e.model, e.task))
    methods = method_results(episodes, baseline=ZERO, at_once=policy.settings.suite.at_once)
    table = method_table(methods)
    console.print(table.with_title(f"{policy.settings.suite.name}: held-out test tasks"))
    result = {
        **made_by(policy.settings),
        "tasks": tasks,
        "revision": policy.local.revision,
        "models": [*seeds],
        "searches": [row.model_dump(mode="json") for row in searches],
        "test": methods.model_dump(mode="json"),
    }
    write_results(results, result, table.to_markdown())
    write_method_episodes(results / "episodes.csv", episodes)
