"""What each torchrun process runs: train on the data of argv[1]; the first alone reads them, and writes to argv[2]."""

import sys
from typing import NoReturn

import numpy as np
import torch
from safetensors.torch import save_file

from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig
from bestofq.learning.distributed import process_group
from bestofq.learning.iql import IQL, IQLRow, train_iql
from bestofq.learning.training import share_transitions


def main(data: str, out: str, config: str) -> None:
    rows: list[IQLRow] = []

    def save(iql: IQL) -> None:
        if iql.step < iql.config.steps:
            return
        weights = {f"q.{name}": value for name, value in iql.q.state_dict().items()}
        weights |= {f"v.{name}": value for name, value in iql.v.state_dict().items()}
        save_file(weights, out, metadata={"q_loss": str(rows[-1].q_loss)})

    torch.set_num_threads(1)
    with process_group(torch.device("cpu")) as group:
        try:
            nothing = group.share(fail)
        except ValueError:
            nothing = {}
        assert nothing == {}  # the others do not wait for what never comes
        transitions = share_transitions(lambda: Transitions(**np.load(data)), group)
        assert transitions is not None
        train_iql(transitions, IQLConfig.model_validate_json(config), on_row=rows.append, on_step=save, group=group)


def fail() -> NoReturn:
    raise ValueError


if __name__ == "__main__":
    main(*sys.argv[1:])
