"""What each torchrun process runs: train on the data of argv[1], the first writes Q, V and its rows to argv[2]."""

import sys

import numpy as np
import torch
from safetensors.torch import save_file

from bestofq.core.transitions import Transitions
from bestofq.learning.iql import IQL, IQLConfig, IQLRow, train_iql


def main(data: str, out: str, config: str) -> None:
    rows: list[IQLRow] = []

    def save(iql: IQL) -> None:
        if iql.step < iql.config.steps:
            return
        weights = {f"q.{name}": value for name, value in iql.q.state_dict().items()}
        weights |= {f"v.{name}": value for name, value in iql.v.state_dict().items()}
        save_file(weights, out, metadata={"q_loss": str(rows[-1].q_loss)})

    torch.set_num_threads(1)
    transitions = Transitions(**np.load(data))
    train_iql(transitions, IQLConfig.model_validate_json(config), on_row=rows.append, on_step=save)


if __name__ == "__main__":
    main(*sys.argv[1:])
