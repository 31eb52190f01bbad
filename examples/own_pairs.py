"""DPO on pairs of your own: the pocket model comes to prefer one reply to another, in one process or in several.

Run it with `.venv/bin/python examples/own_pairs.py`; it takes about ten seconds. In two processes, on GPUs or CPUs:
`.venv/bin/accelerate launch --config_file examples/accelerate/ddp.yaml examples/own_pairs.py`.
"""

from pathlib import Path

import bestofq as bq

OUT = Path("runs/own_pairs")
THINGS = ("a red lamp", "a small desk", "three green cups", "a chair of oak")

pocket = bq.LocalModel.load(precision="float32")
pairs = [(f"user: I want {thing}\npage: {thing} [2]\nnext:", "click [2]", "go back") for thing in THINGS]
folder = bq.tune(pocket, pairs, OUT, lr=1e-4, epochs=5, batch_size=4)
print(f"the tuned weights: {folder}")
