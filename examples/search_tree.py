"""Search before acting: one task's tree in the text shop, by the model that ships.

Run it with `.venv/bin/python examples/search_tree.py`; it takes about ten seconds and draws runs/search_tree.svg.
"""

import asyncio
from pathlib import Path

from bestofq.agents.proposers.sampling import SamplingProposer
from bestofq.core.decision import State
from bestofq.core.protocols import Env
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.models.local import LocalModel
from bestofq.reports.trees import search_tree_svg
from bestofq.search.backtracking import EnvPool
from bestofq.search.config import SearchConfig
from bestofq.search.mcts import Search
from bestofq.search.tree import MutableTree


async def main() -> str:
    suite = synthetic_suite()
    task = suite.tasks("dev", limit=4)[3]

    async def make_env() -> Env:
        return TextEnv(suite)

    config = SearchConfig(iterations=12, candidates=3, depth=STEP_LIMIT, sandboxed=True)
    envs = EnvPool(make_env, task, config)
    root = await envs.start()
    tree = MutableTree(task, root)
    search = Search(
        tree,
        State(task=task, observation=root),
        envs,
        proposer=SamplingProposer(LocalModel.load(), temperature=0.8, draws=3),
        ranker=None,  # no feedback: actions in the order they were proposed
        config=config,
    )
    await search.run()
    print(f"{task.goal}: {tree.visits[0]} rollouts, mean outcome {tree.value[0]:.2f}; the way most taken:")
    node = 0
    while tree.children[node]:
        node = max(tree.children[node], key=lambda child: (tree.visits[child], tree.value[child]))
        taken = tree.candidate[node]
        print(f"  N = {tree.visits[node]:2}, Q = {tree.value[node]:.2f}: {taken.label[:90] if taken else ''}")
    await envs.close()
    return search_tree_svg(tree.to_tree())


picture = asyncio.run(main())
Path("runs").mkdir(exist_ok=True)
Path("runs/search_tree.svg").write_text(picture, "utf-8")
