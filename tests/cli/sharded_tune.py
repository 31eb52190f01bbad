"""`bestofq` on CPUs that accelerate takes for GPUs: it shards over those only, though PyTorch does so on CPUs too."""

from accelerate.state import PartialState
from accelerate.utils import DistributedType

from bestofq.cli.main import run

if __name__ == "__main__":
    PartialState(cpu=True)
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    run()
