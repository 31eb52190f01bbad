"""What two processes learn together is what one does."""

import os
import socket
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
import torch.multiprocessing
from safetensors import safe_open
from safetensors.torch import save_file

from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.distributed import process_group
from bestofq.learning.iql import IQL, IQLRow, train_iql


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_two_processes_learn_what_one_does(tmp_path: Path, data: Transitions, config: IQLConfig) -> None:
    config = config.model_copy(
        update={"steps": 60, "network": NetworkConfig(project=16, hidden=(32, 16), dropout=0.0), "device": "cpu"}
    )
    fields = {name: getattr(data, name) for name in Transitions.__dataclass_fields__}
    np.savez(tmp_path / "data.npz", **{name: values for name, values in fields.items() if values is not None})
    rows: list[IQLRow] = []
    alone = train_iql(data, config, on_row=rows.append)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = port, str(tmp_path / "data.npz"), str(tmp_path / "out.safetensors"), config.model_dump_json()
    torch.multiprocessing.start_processes(process, arguments, nprocs=2, start_method="fork")

    with safe_open(tmp_path / "out.safetensors", "pt") as out:
        for name, expected in alone.q.state_dict().items():
            torch.testing.assert_close(out.get_tensor(f"q.{name}"), expected, atol=1e-5, rtol=1e-4)
        for name, expected in alone.v.state_dict().items():
            torch.testing.assert_close(out.get_tensor(f"v.{name}"), expected, atol=1e-5, rtol=1e-4)
        assert abs(float(out.metadata()["q_loss"]) - rows[-1].q_loss) < 1e-5


def process(rank: int, port: int, data: str, out: str, config: str) -> None:
    """One of two, as torchrun would begin it: the first alone reads `data`, and writes to `out`."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    os.environ["MASTER_PORT"] = str(port)
    rows: list[IQLRow] = []

    def save(iql: IQL) -> None:
        if iql.step < iql.config.steps:
            return
        weights = {f"q.{name}": value for name, value in iql.q.state_dict().items()}
        weights |= {f"v.{name}": value for name, value in iql.v.state_dict().items()}
        save_file(weights, out, metadata={"q_loss": str(rows[-1].q_loss)})

    with process_group(torch.device("cpu")) as group:
        try:
            nothing = group.share(fail)
        except ValueError:
            nothing = None
        assert nothing is None  # the others do not wait for what never comes
        transitions = group.share(lambda: Transitions(**np.load(data)))
        assert transitions is not None
        train_iql(transitions, IQLConfig.model_validate_json(config), on_row=rows.append, on_step=save, group=group)


def fail() -> NoReturn:
    raise ValueError
