"""Commands of `bestofq` in the processes of one launch, one after another: COMMAND then COMMAND …

`reinforce PAIRS WEIGHTS OUT` is RFT as the recipe does it, on the better turns of pairs instead of a search's.

After the word `sharded`, on CPUs that accelerate takes for GPUs: it shards over those only, though PyTorch does so on
CPUs too.
"""

import sys
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

from accelerate.state import PartialState
from accelerate.utils import DistributedType
from rich.console import Console

from bestofq.build.models import Models
from bestofq.build.settings import BestOfQSettings
from bestofq.cli.commands import app
from bestofq.cli.config import load_config
from bestofq.recipes import policy_training
from bestofq.store.pairs import read_pairs

RFT = ("model.dialect=composite", *(f"agent_q.rft.{what}" for what in ("lr=1e-3", "batch_size=4", "precision=float32")))


def reinforce(pairs: str, weights: str, out: str) -> None:
    models = Models(load_config(BestOfQSettings, None, [f"model.path={weights}", *RFT]))
    rollouts = [pair.chosen for pair in read_pairs(Path(pairs), source=policy_training.source(models))]
    with patch.object(policy_training, "successful_turns", return_value=rollouts):
        policy_training.reinforce(models, (), Path(out), Console(quiet=True))


if __name__ == "__main__":
    commands = [[*words] for then, words in groupby(sys.argv[1:], "then".__eq__) if not then]
    state = PartialState(cpu=True)  # a command leaves the group where it finds one
    if sharded := commands[0][0] == "sharded":
        del commands[0][0]
    for command in commands:
        if sharded:
            PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
        if command[0] == "reinforce":
            reinforce(*command[1:])
        else:
            app(command, standalone_mode=False)
    state.destroy_process_group()
