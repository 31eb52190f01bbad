"""JupyterLab as a suite: an application that none of us wrote, in an environment of its own, on loopback.

JUPYTERLAB names its program, `jupyter-lab`. Each environment starts a server of its own; each episode begins with an
empty folder, no sessions and no settings. The outcome is what the server's contents, sessions and settings APIs say.
"""

import asyncio
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any

import httpx

from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.core.actions import Action
from bestofq.core.errors import InfraError, SetupError
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import Env, EnvFactory, Suite
from bestofq.envs.web import WebEnv
from experiments.jupyterlab.templates import TEMPLATES, Cell, Problem, World, make_problem

VARIABLE = "JUPYTERLAB"
START_SECONDS, OPEN_SECONDS = 300, 180
PLUGINS = {"apputils-extension:themes", "docmanager-extension:plugin"}
OPTIONS = [
    "--allow-root", "--no-browser", "--ServerApp.ip=127.0.0.1", "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly",
    "--FileContentsManager.delete_to_trash=False", "--FileContentsManager.always_delete_dir=True",
    "--LabApp.core_mode=True",  # else each page starts node to see whether JupyterLab must be built
]  # fmt: skip
TIED = 'exec 3<&0; "$@" & pid=$!; { read -r _ <&3; kill $pid; } & wait $pid'
"""Ends the program when this process ends, even by `kill -9`: its input ends then."""


class Server:
    """One JupyterLab, with a folder for its files, settings and workspaces."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_hex(8)
        self.http = httpx.AsyncClient(headers={"Authorization": f"token {self.token}"}, timeout=60, trust_env=False)

    @classmethod
    @asynccontextmanager
    async def start(cls) -> AsyncIterator["Server"]:
        """SetupError without a program, InfraError if it does not answer."""
        program = os.environ.get(VARIABLE, "")
        if not Path(program).is_file():
            raise SetupError(f"{VARIABLE}={program} is no program: give the path of jupyter-lab (prepare.sh)")
        with tempfile.TemporaryDirectory() as name, socket.socket() as free:
            server = cls(Path(name))
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            own = {f"JUPYTER_{part}_DIR": f"{name}/{part}" for part in ("CONFIG", "DATA", "RUNTIME")}
            own |= {"JUPYTERLAB_SETTINGS_DIR": f"{name}/settings", "JUPYTERLAB_WORKSPACES_DIR": f"{name}/workspaces"}
            path = f"{Path(program).parent}{os.pathsep}{os.environ.get('PATH', '')}"
            (server.folder / "root").mkdir()
            options = [f"--ServerApp.port={port}", f"--IdentityProvider.token={server.token}"]
            options.append(f"--ServerApp.root_dir={name}/root")
            environment = {key: os.environ[key] for key in os.environ if key != "PYTHONPATH"} | own | {"PATH": path}
            quiet, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
            command = ["sh", "-c", TIED, "sh", program, *OPTIONS, *options]
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, stdin=pipe, stdout=quiet, stderr=quiet
            )
            assert process.stdin is not None
            server.http.base_url = f"http://127.0.0.1:{port}"
            try:
                await server._wait(process)
                yield server
            finally:
                with suppress(httpx.HTTPError):
                    await server.clear()
                process.stdin.close()
                await process.wait()
                await server.http.aclose()

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        for _ in range(START_SECONDS * 5):
            with suppress(httpx.TransportError):
                (await self.http.get("/api/status")).raise_for_status()
                return
            if process.returncode is not None:
                break
            await asyncio.sleep(0.2)
        raise InfraError(f"JupyterLab ended ({process.returncode}) or did not answer within {START_SECONDS} s")

    async def _json(self, path: str) -> Any:
        answer = await self.http.get(path)
        return answer.raise_for_status().json()

    async def clear(self) -> None:
        """End all kernels, and empty the folders of files, settings and workspaces."""
        for kernel in await self._json("/api/kernels"):
            await self.http.delete(f"/api/kernels/{kernel['id']}")
        for part in ("root", "settings", "workspaces"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            (self.folder / part).mkdir()

    async def begin(self, problem: Problem) -> None:
        """Hold the files and sessions that a problem begins with, and no others."""
        await self.clear()
        for path, content in problem.before.items():
            file = self.folder / "root" / path
            (file if path.endswith("/") else file.parent).mkdir(parents=True, exist_ok=True)
            if not path.endswith("/"):
                file.write_text(content if isinstance(content, str) else notebook(content))
        for path in sorted(problem.sessions_before):
            body = {"path": path, "type": "notebook", "name": path, "kernel": {"name": "python3"}}
            (await self.http.post("/api/sessions", json=body)).raise_for_status()

    async def look(self) -> World:
        """What it holds now."""
        files: dict[str, Any] = {}
        folders = [""]
        while folders:
            for item in (await self._json(f"/api/contents/{folders.pop()}"))["content"]:
                path = item["path"]
                if item["type"] == "directory":
                    folders.append(path)
                    files[f"{path}/"] = ""
                else:
                    content = (await self._json(f"/api/contents/{path}"))["content"]
                    files[path] = read_cells(content) if item["type"] == "notebook" else content
        sessions = frozenset(one["path"] for one in await self._json("/api/sessions"))
        settings: dict[str, Any] = {}
        for plugin in PLUGINS:
            stored = (await self._json(f"/lab/api/settings/@jupyterlab/{plugin}"))["settings"]
            settings |= {f"{plugin}:{key}": value for key, value in stored.items()}
        return World(files=files, sessions=sessions, settings=settings)


def notebook(cells: Sequence[Cell]) -> str:
    """A notebook's file of these cells."""
    made = []
    for number, (kind, source, output) in enumerate(cells):
        cell = {"cell_type": kind, "id": f"cell{number}", "metadata": {}, "source": source}
        result = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": output}}
        made.append(cell | {"execution_count": None, "outputs": [result] if output else []})
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made})


def read_cells(content: Mapping[str, Any]) -> list[Cell]:
    """Type, source and text output of each cell."""

    def text(output: Mapping[str, Any]) -> str:
        return "".join(output.get("data", {}).get("text/plain", output.get("text", "")))

    cells = content["cells"]
    return [(one["cell_type"], "".join(one["source"]), "".join(map(text, one.get("outputs", [])))) for one in cells]


class JupyterEnv(WebEnv):
    """`Env` over JupyterLab in Chromium. The episode ends with reward 1 as soon as the server holds what was asked."""

    def __init__(self, server: Server, browser: Browser, *, screenshots: bool) -> None:
        super().__init__(browser, screenshots=screenshots, evaluate=self._reward)
        self.server = server

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """A server without the traces of other episodes. InfraError if the page does not open."""
        await self.session.close()  # an open page starts its kernels again
        await self.server.begin(make_problem(task.id))
        self.root = str(self.server.http.base_url).rstrip("/")
        start = f"{self.root}{task.start_url}?token={self.server.token}"
        visiting = task.model_copy(update={"start_url": start, "allowed_hosts": ("127.0.0.1",)})
        seen = await super().reset(visiting, seed=seed)
        for _ in range(OPEN_SECONDS):
            if "Text File" in seen.text:  # the launcher, the last part to come
                return seen
            await asyncio.sleep(1)
            seen = await self._look(None)
        raise InfraError(f"JupyterLab's page did not open within {OPEN_SECONDS} s")

    async def _reward(self, task: Task, action: Action, seen: Observation) -> tuple[float, bool]:
        done = make_problem(task.id).is_done(await self.server.look())
        return float(done), done


class JupyterLab:
    """`Suite`. `per_template`: tasks of each template. Only test has templates that are held out."""

    name, step_limit, sandboxed, needs_judge, judge = "jupyterlab", 15, True, False, None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.browser = BrowserConfig.model_validate(settings.get("browser") or {})

    async def tasks(self, split: Split) -> list[Task]:
        globs = [glob.strip() for glob in str(self.settings.get("only", "*")).split(",")]
        numbers = range(int(self.settings.get("per_template", 4)))
        tasks = []
        for number, template in product(numbers, TEMPLATES):
            key = f"{template}/{split}-{number}"
            problem = make_problem(key)
            if (split == "test" or not problem.held_out) and any(fnmatch(key, glob) for glob in globs):
                own = {"goal": problem.goal, "start_url": "/lab", "split": split, "group": template}
                tasks.append(Task(id=key, suite=self.name, **own))
        return tasks

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EnvFactory]:
        async with AsyncExitStack() as stack:
            browser = await stack.enter_async_context(Browser.launch(self.browser))

            async def make_env() -> Env:
                server = await stack.enter_async_context(Server.start())
                return JupyterEnv(server, browser, screenshots=bool(self.settings.get("screenshots")))

            yield make_env


def make_suite(settings: Mapping[str, Any]) -> Suite:
    return JupyterLab(settings)
