import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.iql import IQLRow, train_iql


def test_two_processes_under_torchrun_learn_what_one_does(tmp_path: Path, data: Transitions, config: IQLConfig) -> None:
    config = config.model_copy(
        update={"steps": 60, "network": NetworkConfig(project=16, hidden=(32, 16), dropout=0.0), "device": "cpu"}
    )
    fields = {name: getattr(data, name) for name in Transitions.__dataclass_fields__}
    np.savez(tmp_path / "data.npz", **fields)
    rows: list[IQLRow] = []
    alone = train_iql(data, config, on_row=rows.append)

    script = Path(__file__).with_name("two_processes.py")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    arguments = [str(tmp_path / "data.npz"), str(tmp_path / "out.safetensors"), config.model_dump_json()]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run([*launch, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr

    with safe_open(tmp_path / "out.safetensors", "pt") as out:
        for name, expected in alone.q.state_dict().items():
            torch.testing.assert_close(out.get_tensor(f"q.{name}"), expected, atol=1e-5, rtol=1e-4)
        for name, expected in alone.v.state_dict().items():
            torch.testing.assert_close(out.get_tensor(f"v.{name}"), expected, atol=1e-5, rtol=1e-4)
        assert abs(float(out.metadata()["q_loss"]) - rows[-1].q_loss) < 1e-5
