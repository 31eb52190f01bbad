"""Search before acting: one task's tree in the text shop, by the model that ships.

Run it with `.venv/bin/python examples/search_tree.py`; it takes ten seconds and writes runs/search_tree/report/.
"""

import asyncio
from pathlib import Path

from bestofq import __version__
from bestofq.agents.proposers.sampling import SamplingProposer
from bestofq.core.decision import Provenance, State
from bestofq.core.protocols import Env
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.models.local import LocalModel
from bestofq.reports.report import gather
from bestofq.search.backtracking import EnvPool
from bestofq.search.config import SearchConfig
from bestofq.search.mcts import Search
from bestofq.search.tree import MutableTree
from bestofq.store.store import Store
from bestofq.viewer.export import export


async def main() -> None:
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
    with Store.open("runs/search_tree") as store:
        await store.begin_run("search", {}, Provenance(version=__version__, command="by hand"))
        await store.trees.save("search", tree.to_tree())
        print(f"written: {export(store, gather(store), Path('runs/search_tree/report'), title='One search tree')}")


asyncio.run(main())
