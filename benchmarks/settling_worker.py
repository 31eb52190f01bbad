"""A peer's side of benchmarks/settling.py; runs in an environment with BrowserGym or with browser-use.

Reads lines of JSON {"url": …, "click": …} and answers each with {"seconds": …, "text": …} of the click or the load.
The first argument is `browsergym` or `browser-use`, the second a Chromium.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable

Answer = dict[str, object]


def browsergym(executable: str) -> Callable[[str, bool], Answer]:
    import browsergym.core  # noqa: F401  registers the environments
    import gymnasium
    from browsergym.core.action.highlevel import HighLevelActionSet
    from playwright.sync_api import BrowserType

    launch = BrowserType.launch
    BrowserType.launch = lambda self, **options: launch(self, **{**options, "executable_path": executable or None})
    actions = HighLevelActionSet(subsets=["bid", "nav"]).to_python_code
    env = gymnasium.make(
        "browsergym/openended", task_kwargs={"start_url": "about:blank"}, headless=True, action_mapping=actions
    )
    env.reset(seed=0)

    def nodes(seen: dict) -> list[dict]:
        return [node for node in seen["axtree_object"]["nodes"] if node.get("name", {}).get("value")]

    def visit(url: str, click: bool) -> Answer:
        begun = time.perf_counter()
        seen, *_ = env.step(f"goto({url!r})")
        if click:
            button = next(node["browsergym_id"] for node in nodes(seen) if node["name"]["value"] == "Go")
            begun = time.perf_counter()
            seen, *_ = env.step(f"click({button!r})")
        seconds = time.perf_counter() - begun
        return {"seconds": seconds, "text": "".join(str(node["name"]["value"]) for node in nodes(seen))}

    return visit


def browser_use(executable: str) -> Callable[[str, bool], Answer]:
    os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_LOGGING_LEVEL": "result"}
    os.environ |= {"BROWSER_USE_CLOUD_SYNC": "false", "BROWSER_USE_VERSION_CHECK": "false"}
    from browser_use import BrowserProfile, BrowserSession
    from browser_use.browser.events import ClickElementEvent, NavigateToUrlEvent

    loop = asyncio.new_event_loop()
    session = BrowserSession(
        browser_profile=BrowserProfile(
            headless=True,
            executable_path=executable or None,
            keep_alive=True,
            enable_default_extensions=False,
            chromium_sandbox=False,
        )
    )
    loop.run_until_complete(session.start())

    async def look() -> tuple[str, dict]:
        state = await session.get_browser_state_summary(include_screenshot=True)
        return state.dom_state.llm_representation(), state.dom_state.selector_map

    async def dispatch(event: object) -> None:
        sent = session.event_bus.dispatch(event)
        await sent
        await sent.event_result(raise_if_any=False, raise_if_none=False)

    async def both(url: str, click: bool) -> Answer:
        begun = time.perf_counter()
        await dispatch(NavigateToUrlEvent(url=url))
        text, elements = await look()
        if click:
            button = next(node for node in elements.values() if node.node_name == "BUTTON")
            begun = time.perf_counter()
            await dispatch(ClickElementEvent(node=button))
            text, _ = await look()
        return {"seconds": time.perf_counter() - begun, "text": "".join(line.strip() for line in text.split("\n"))}

    return lambda url, click: loop.run_until_complete(both(url, click))


def main(side: str, executable: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print too
    visit = {"browsergym": browsergym, "browser-use": browser_use}[side](executable)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = visit(asked["url"], asked["click"])
        except Exception as error:  # whatever the peer does: it has seen nothing
            answer = {"seconds": None, "text": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:3])
