"""What reranking costs a step: the networks alone at the paper's sizes, then whole steps beside Prompting's.

    python benchmarks/overhead.py --out overhead.json

First, Q(s, a) of N = 3 candidates and V(s) at D = 2048 (B.2), the embedding excluded: vectors are there, all else is
what a step does, ten of them a task (Table 12). Then steps on result pages of the shop with a proposer that takes 2 s,
each page seen for the first time: Prompting; Best-of-Q with the pocket model's embedder in this process, texts alone
(A.3), the state embedded while the proposer is thinking; and the same without that. Last, both with the shipped
Q-function, which reads the model's own reviews of the candidates: reviews are written, not only read.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.commands import parse_reply
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.learned import QScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.protocols import Scorer
from bestofq.core.transitions import Floats
from bestofq.learning.checkpoint import load_value, read_card
from bestofq.learning.networks import QNetwork, VNetwork
from bestofq.learning.value import ValueModel
from bestofq.models.embed import LocalEmbedder
from bestofq.testing.scripted import ScriptedProposer
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.shipped import POCKET_Q
from bestofq_sites.webshop.suite import synthetic_suite

N = 3
DIM = 2048  # of Qwen2.5-VL-3B (Table 12)


class Ready:
    """An embedder whose vectors are there: a fixed one for each text."""

    spec = EmbedSpec(model="ready", revision="1", dim=DIM)

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._vectors: dict[str, Floats] = {}

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        for item in items:
            if item.text not in self._vectors:
                self._vectors[item.text] = self._rng.standard_normal(DIM, np.float32)
        return np.stack([self._vectors[item.text] for item in items]), 0


@dataclass(frozen=True)
class Afterwards:
    """A scorer that does not prepare."""

    scorer: Scorer

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        return await self.scorer.score(state, candidates)


async def pages(count: int) -> list[State]:
    """Result pages, one a task."""
    suite = synthetic_suite()
    env = TextEnv(suite)
    states = []
    for task in suite.tasks("train", count):
        query = suite.catalogue[suite.goals[task.id].product_id].query
        search = parse_reply(f'write [1] "{query}" enter', await env.reset(task, seed=0)).action
        states.append(State(task=task, observation=(await env.step(search)).observation))
    return states


async def rerank(states: Sequence[State], seed: int) -> dict[str, float]:
    """Median milliseconds a step: of what is done while the proposer thinks, and of what it is waited for."""
    torch.manual_seed(seed)
    ready = Ready(seed)
    values = ValueModel(QNetwork(DIM), VNetwork(DIM), embed=Ready.spec, train_n=N)
    scorer = QScorer(values, ready, EmbeddingTexts())
    proposer = ScriptedProposer(links)
    before, after = [], []
    for index, page in enumerate(states):
        state = page.model_copy(update={"task": states[index - index % 10].task})
        candidates = (await proposer.propose(state, N)).candidates
        texts = EmbeddingTexts()
        await ready.embed([texts.state(state), texts.task(state.task), *(texts.action(state, c) for c in candidates)])
        began = time.perf_counter()
        await scorer.prepare(state)
        prepared = time.perf_counter()
        await scorer.score(state, candidates)
        before.append(1000 * (prepared - began))
        after.append(1000 * (time.perf_counter() - prepared))
    total = [a + b for a, b in zip(before, after, strict=True)]
    return {
        "while_proposing_ms": statistics.median(before),
        "after_proposing_ms": statistics.median(after),
        "total_ms": statistics.median(total),
    }


def links(state: State, n: int) -> list[str]:
    """Clicks on the last links of the page: its products."""
    marks = [element.mark for element in state.observation.elements if element.role == "link"]
    return [f"click [{mark}]" for mark in marks[-n:]]


async def step_seconds(agent: Agent, states: Sequence[State]) -> float:
    """Median seconds of a decision, one after the other."""
    spent = []
    for state in states:
        began = time.perf_counter()
        decision = await agent.decide(state, np.random.default_rng(0))
        spent.append(time.perf_counter() - began)
        if len(decision.candidates) != agent.n_candidates:
            raise RuntimeError(f"{len(decision.candidates)} candidates on {state.observation.url}")
    return statistics.median(spent)


async def steps(states: Sequence[State], seconds: float, seed: int) -> dict[str, float]:
    """Median seconds of a step, by agent."""
    torch.manual_seed(seed)
    proposer = ScriptedProposer(links, seconds=seconds)
    model = Models(BestOfQSettings()).local
    shipped = read_card(POCKET_Q).embed

    def alone() -> Scorer:
        embedder = LocalEmbedder(model)
        dim = embedder.spec.dim
        values = ValueModel(QNetwork(dim), VNetwork(dim), embed=embedder.spec, train_n=N)
        return QScorer(values, embedder, EmbeddingTexts())

    def reviewed() -> Scorer:
        models = Models(BestOfQSettings()).with_embedding(shipped)
        return QScorer(load_value(POCKET_Q, embed=models.embedder.spec), models.embedder, models.texts)

    found = {}
    for name, scorer, n in (
        ("Prompting", ConstantScorer(), 1),
        ("Best-of-Q", alone(), N),
        ("Best-of-Q, embedding afterwards", Afterwards(alone()), N),
        ("Best-of-Q, shipped (reviews)", reviewed(), N),
        ("Best-of-Q, shipped (reviews), embedding afterwards", Afterwards(reviewed()), N),
    ):
        agent = Agent(name=name, proposer=proposer, scorer=scorer, selector=GreedySelector(), n_candidates=n)
        await step_seconds(
            Agent(**{**vars(agent), "proposer": ScriptedProposer(links)}), states[:2]
        )  # kernels are made
        found[name] = await step_seconds(agent, states[2:])
    return found


async def measure(args: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    states = await pages(max(args.reranks, args.steps + 2))
    return await rerank(states[: args.reranks], args.seed), await steps(states[: args.steps + 2], args.reply, args.seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reranks", type=int, default=300, help="steps of the networks alone")
    parser.add_argument("--steps", type=int, default=20, help="whole steps per agent")
    parser.add_argument("--reply", type=float, default=2.0, help="seconds the proposer takes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    networks, agents = asyncio.run(measure(args))
    sys.stdout.write(
        f"Q and V, D = {DIM}, N = {N}, {torch.get_num_threads()} threads: {networks['total_ms']:.2f} ms a step, "
        f"{networks['after_proposing_ms']:.2f} ms of them after the proposer\n"
    )
    prompting = agents["Prompting"]
    for name, seconds in agents.items():
        sys.stdout.write(f"{name:55}{seconds:8.3f} s{1000 * (seconds - prompting):+9.1f} ms\n")
    if args.out:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        result = {
            "command": " ".join(["python", *sys.argv]),
            "seed": args.seed,
            "commit": commit,
            "machine": {
                "cpu": platform.machine(),
                "cores": os.cpu_count(),
                "threads": torch.get_num_threads(),
                "load": os.getloadavg(),
            },
            "networks": networks,
            "step_s": agents,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
