"""Search before acting: one task's tree in the text shop, by the model that ships.

Run it with `.venv/bin/python examples/search_tree.py`; it takes ten seconds and writes runs/search_tree/report/.
"""

import asyncio
from pathlib import Path

import bestofq as bq

OUT = Path("runs/search_tree")


async def main() -> None:
    suite = bq.load_suite("webshop")
    proposer = bq.SamplingProposer(bq.LocalModel.load())
    task = (await suite.tasks("dev"))[3]
    with bq.Store.open(OUT) as store:
        tree = await bq.search_tree(suite, task, proposer, store, iterations=12, candidates=3)
        print(f"{task.goal}: {tree.visits[0]} rollouts, mean outcome {tree.value[0]:.2f}; the way most taken:")
        node = 0
        while below := [child for child, parent in enumerate(tree.parent) if parent == node and child]:
            node = max(below, key=lambda child: (tree.visits[child], tree.value[child]))
            taken = tree.candidate[node]
            print(f"  N = {tree.visits[node]:2}, Q = {tree.value[node]:.2f}: {taken.label[:90] if taken else ''}")
        print(f"written: {bq.export(store, bq.gather(store), OUT / 'report', title='One search tree')}")


asyncio.run(main())
