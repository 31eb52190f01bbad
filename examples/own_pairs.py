"""DPO on pairs of your own: the pocket model comes to prefer one reply to another, in one process or in several.

Run it with `.venv/bin/python examples/own_pairs.py`; it takes about ten seconds. In two processes, on GPUs or CPUs:
`.venv/bin/accelerate launch --config_file examples/accelerate/ddp.yaml examples/own_pairs.py`.
"""

from pathlib import Path

from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.distributed import group_left, is_first_process
from bestofq.learning.shared_prefix import Branches, reply_log_probs
from bestofq.learning.tuning import DPOConfig, train_on_preferences
from bestofq.models.local import LocalModel

OUT = Path("runs/own_pairs")
pocket = LocalModel.load(precision="float32")
better, worse = (tuple(pocket.encode(reply)) for reply in ("click [2]", "go back"))
pairs = []
for number, thing in enumerate(("a red lamp", "a small desk", "three green cups", "a chair of oak")):
    prompt = tuple(pocket.encode(f"user: I want {thing}\npage: {thing} [2]\nnext:"))
    node = Branches(prompt, (better, worse))
    drawn = reply_log_probs(pocket.model, [node], share=False).tolist()  # kept: so no reference model is needed
    chosen, rejected = (
        Turn(prompt_ids=prompt, reply_ids=reply, log_prob=p) for reply, p in zip((better, worse), drawn, strict=True)
    )
    pairs.append(PreferencePair(chosen=(chosen,), rejected=(rejected,), margin=1.0, task=thing, node=number))

config = DPOConfig(lr=1e-4, epochs=5, batch_size=4)
with group_left():
    folder = train_on_preferences(
        pocket.model, pairs, config, lambda row: print(f"step {row.step}: loss {row.means.loss:.3f}"), out=OUT
    )
if is_first_process():
    print(f"the tuned weights: {folder}")
