"""Commands of `bestofq` in the processes of one launch, one after another: COMMAND then COMMAND …

After the word `sharded`, on CPUs that accelerate takes for GPUs: it shards over those only, though PyTorch does so on
CPUs too.
"""

import sys
from itertools import groupby

from accelerate.state import PartialState
from accelerate.utils import DistributedType

from bestofq.cli.commands import app

if __name__ == "__main__":
    commands = [[*words] for then, words in groupby(sys.argv[1:], "then".__eq__) if not then]
    state = PartialState(cpu=True)  # a command leaves the group where it finds one
    if sharded := commands[0][0] == "sharded":
        del commands[0][0]
    for command in commands:
        if sharded:
            PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
        app(command, standalone_mode=False)
    state.destroy_process_group()
