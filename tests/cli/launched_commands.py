"""Commands of `bestofq` in the processes of one launch, one after another: COMMAND then COMMAND …

`reinforce PAIRS WEIGHTS OUT` is RFT as the recipe does it, on the better turns of pairs instead of a search's.

After the word `sharded`, on CPUs that accelerate takes for GPUs: it shards over those only, though PyTorch does so on
CPUs too.
"""

import gc
import sys
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

from accelerate.state import PartialState
from accelerate.utils import DistributedType
from torch.nn import Parameter
from torch.optim.optimizer import register_optimizer_step_post_hook

from bestofq.cli.commands import app
from bestofq.cli.config import load_config
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.recipes import policy_training
from bestofq.store.pairs import read_pairs

RFT = ("model.dialect=composite", *(f"agent_q.rft.{what}" for what in ("lr=1e-3", "batch_size=4", "precision=float32")))


def reinforce(pairs: str, weights: str, out: str) -> None:
    models = Models(load_config(BestOfQSettings, None, [f"model.path={weights}", *RFT]))
    rollouts = [pair.chosen for pair in read_pairs(Path(pairs), source=policy_training.source(models))]
    with patch.object(policy_training, "successful_turns", return_value=rollouts):
        policy_training.reinforce(models, (), Path(out))


def none_is_whole(*_: object) -> None:
    """After a step under FSDP nothing holds the trained weights but their shards."""
    held = (one for one in gc.get_objects() if type(one) is Parameter and one.requires_grad)
    assert not (whole := [one.shape for one in held if one.untyped_storage().nbytes()]), whole


if __name__ == "__main__":
    commands = [[*words] for then, words in groupby(sys.argv[1:], "then".__eq__) if not then]
    state = PartialState(cpu=True)  # a command leaves the group where it finds one
    if sharded := commands[0][0] == "sharded":
        del commands[0][0]
        register_optimizer_step_post_hook(none_is_whole)
    for command in commands:
        if sharded:
            PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
        if command[0] == "reinforce":
            reinforce(*command[1:])
        else:
            app(command, standalone_mode=False)
    state.destroy_process_group()
