"""`make tutorial`: each command of docs/tutorial.md in its order, in a folder of its own, with the seconds it took."""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def commands(page: str) -> list[str]:
    """The lines of its `sh` blocks, but for the set-up, which has been done."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip() and line != "make setup"]


def main() -> None:
    """Ends with the first command that fails, and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (".venv", "examples"):
            (Path(folder) / name).symlink_to((ROOT / name).resolve())
        for command in commands((ROOT / "docs" / "tutorial.md").read_text("utf-8")):
            began = time.monotonic()
            done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
            sys.stdout.write(f"{time.monotonic() - began:5.1f} s  {command}\n")
            if done.returncode:
                sys.exit(f"{done.stdout}\n{done.stderr}\nended with {done.returncode}")


if __name__ == "__main__":
    main()
