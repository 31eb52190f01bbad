"""The forms that other tools' logs take: each version's actions, pools of messages, pictures, half characters."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from logs import DOT, bestofq, counts, imported, picture, written

from bestofq.core.actions import Action, Answer, Click, GoBack, Goto, Other, Press, Refresh, Scroll, Upload, Wait, Write
from bestofq.core.observation import Observation
from bestofq.interop.actions import call_of, candidate_of
from bestofq.interop.browser_use import elements_on
from bestofq.interop.chat import heard
from bestofq.interop.nouns import element_of, page_of
from bestofq.serve.wire import is_final

BROWSER_USE: list[tuple[dict[str, Any], Action]] = [  # from version 0.1 to 0.13
    ({"click_element_by_index": {"index": 3, "while_holding_ctrl": False}}, Click(mark=3)),
    ({"click_element_by_index": {"index": 3, "xpath": None}}, Click(mark=3)),
    ({"click_element": {"index": 3, "xpath": "//button"}}, Click(mark=3)),
    ({"click": {"index": 3, "coordinate_x": None, "coordinate_y": None}}, Click(mark=3)),
    ({"input_text": {"index": 3, "text": "hi", "clear_existing": True}}, Write(mark=3, text="hi")),
    ({"input_text": {"index": 3, "text": "hi", "xpath": "//input"}}, Write(mark=3, text="hi")),
    ({"input": {"index": 3, "text": "hi", "clear": True}}, Write(mark=3, text="hi")),
    ({"scroll": {"down": True, "num_pages": 1.0, "frame_element_index": None}}, Scroll(pages=1)),
    ({"scroll": {"down": False, "pages": 0.5, "index": None}}, Scroll(direction="up", pages=0.5)),
    ({"scroll_down": {"amount": None}}, Scroll(pages=1)),
    ({"scroll_up": {}}, Scroll(direction="up", pages=1)),
    ({"go_to_url": {"url": "http://a", "new_tab": False}}, Goto(url="http://a")),
    ({"open_tab": {"url": "http://a"}}, Goto(url="http://a")),
    ({"navigate": {"url": "http://a", "new_tab": True}}, Goto(url="http://a")),
    ({"wait": {"seconds": 3}}, Wait(seconds=3)),
    ({"go_back": {}}, GoBack()),
    ({"done": {"text": "ok", "success": True, "files_to_display": []}}, Answer(text="ok")),
    ({"send_keys": {"keys": "Control+a"}}, Press(keys="Control+a")),
    ({"select_dropdown_option": {"index": 3, "text": "Ham"}}, Write(mark=3, text="Ham")),
    ({"upload_file": {"index": 3, "path": "cv.pdf"}}, Upload(mark=3, file="cv.pdf")),
    # what is not exactly ours stays as it was written
    ({"click_element_by_index": {"index": 3, "while_holding_ctrl": True}}, Other(text="click_element_by_index")),
    ({"input": {"index": 3, "text": "hi", "clear": False}}, Other(text="input")),
    ({"scroll_down": {"amount": 400}}, Other(text="scroll_down")),
    ({"send_keys": {"keys": "Hello"}}, Other(text="send_keys")),
    ({"done": {"text": "ok", "files_to_display": ["a.md"]}}, Other(text="done")),
]
OTHERS: list[tuple[str, dict[str, Any], Action]] = [
    ("browser_click", {"element": "Save button", "ref": "e3"}, Click(mark=3)),
    ("browser_click", {"ref": "e3", "button": "left", "doubleClick": False}, Click(mark=3)),
    ("browser_click", {"ref": "f1e3"}, Other(text="browser_click")),  # of a frame
    (
        "browser_type",
        {"ref": "e3", "text": "hi", "submit": True, "slowly": False},
        Write(mark=3, text="hi", enter=True),
    ),
    ("browser_navigate", {"url": "http://a"}, Goto(url="http://a")),
    ("browser_navigate_back", {}, GoBack()),
    ("click", {"bid": "3", "button": "left"}, Click(mark=3)),
    ("click", {"bid": "a3"}, Other(text="click")),
    ("click", {"index": 3, "num_clicks": 2}, Other(text="click")),
    ("click", {"selector": "#a"}, Other(text="click")),
    ("fill", {"bid": "3", "value": "hi"}, Write(mark=3, text="hi")),
    ("scroll", {"direction": "down", "element": "the list"}, Other(text="scroll")),
    ("press", {"bid": "3", "key_comb": "Escape"}, Press(mark=3, keys="Escape")),
    ("reload", {}, Refresh()),
]


def _same(found: Action, expected: Action) -> bool:
    """Equal, or both of no kind of ours, with the name of the tool."""
    if isinstance(expected, Other):
        return isinstance(found, Other) and found.text.partition(" ")[0] == expected.text
    return found == expected


def history(*actions: dict[str, Any], element: Any = None, **state: Any) -> dict[str, Any]:
    said = {"thinking": "t", "memory": "m", "next_goal": "n"}
    url = {"url": "http://x/", "title": "T", "tabs": [], "interacted_element": [element]}
    steps = [{"model_output": {**said, "action": [one]}, "result": [], "state": {**url, **state}} for one in actions]
    return {"history": steps}


def test_the_actions_of_each_version_of_browser_use(tmp_path: Path) -> None:
    save = {"node_name": "BUTTON", "ax_name": "Save"}
    log = written(tmp_path / "run.json", history(*(action for action, _ in BROWSER_USE), element=save))
    (episode,) = imported("browser-use", log, tmp_path / "store")
    for step, (written_as, expected) in zip(episode.steps, BROWSER_USE, strict=True):
        candidate = step.decision.candidate
        assert _same(candidate.action, expected), written_as
        assert (candidate.thought, candidate.note, candidate.explanation) == ("t", "m", "n")
        if isinstance(expected, Click):
            assert candidate.label == "click button Save"


OLD = {"evaluation_previous_goal": "Success", "memory": "1 of 2", "next_goal": "press Save"}


@pytest.mark.parametrize(
    ("element", "shot"),
    [
        ({"node_name": "BUTTON", "ax_name": "Save"}, DOT),
        ({"tag_name": "button", "xpath": "html/button", "attributes": {"aria-label": "Save", "class": "b"}}, DOT),
        ({"tag_name": "button", "highlight_index": 3, "attributes": {"title": "Save"}}, f"data:image/png;base64,{DOT}"),
        ({"node_name": "BUTTON", "ax_name": None, "attributes": {}}, DOT.rstrip("=")),
    ],
)
def test_old_histories_have_thoughts_pictures_and_names(tmp_path: Path, element: Any, shot: str) -> None:
    record = history({"click_element": {"index": 3}}, element=element, screenshot=shot)
    record["history"][0]["model_output"] = {"current_state": OLD, "action": [{"click_element": {"index": 3}}]}
    record["history"][0]["state_message"] = "<browser_state>\n[3]<button />\n\tSave\n</browser_state>"
    (episode,) = imported("browser-use", written(tmp_path / "run.json", record), tmp_path / "store")
    (step,) = episode.steps
    candidate = step.decision.candidate
    assert (candidate.thought, candidate.note, candidate.explanation) == ("Success", "1 of 2", "press Save")
    assert candidate.label == "click button Save"
    assert step.observation.screenshot is not None
    assert DOT not in (step.decision.log or "")


def test_the_actions_of_other_tools() -> None:
    for name, arguments, expected in OTHERS:
        assert _same(call_of(name, arguments).action, expected), (name, arguments)


def test_the_elements_of_playwrights_snapshots() -> None:
    page = """- main [ref=e1]:
  - 'button "Save: all" [ref=e3] [cursor=pointer]':
  - link "Say \\"hi\\"" [active] [ref=e4]:
    - /url: /a
  - textbox [ref=e5]
  - button "Inside" [ref=f1e6]"""
    seen = heard([{"role": "tool", "content": page}], Path())
    found = [(one.mark, one.role, one.name) for one in seen.elements if one.role != "main"]
    assert found == [(3, "button", "Save: all"), (4, "link", 'Say \\"hi\\"'), (5, "textbox", "")]


PAGE = (element_of(3, "button", "Place order"), element_of(4, "button", "Show details"))
FINAL: list[tuple[list[tuple[str, dict[str, Any]]], bool]] = [
    ([("click", {"index": 3})], True),
    ([("click_element_by_index", {"index": 3, "while_holding_ctrl": False})], True),
    ([("click_element_by_index", {"index": 3, "while_holding_ctrl": True})], True),
    ([("click", {"index": 3, "modifiers": ["Shift"]})], True),
    ([("click", {"index": 4, "modifiers": ["Shift"]})], False),
    ([("click_element", {"index": 3, "xpath": "/html/body/button"})], True),
    ([("click", {"index": 3, "button": "left"})], True),
    ([("click", {"index": 3, "num_clicks": 1})], True),
    ([("browser_click", {"ref": "3"})], True),
    ([("browser_click", {"ref": "e3"})], True),
    ([("browser_click", {"element": "Place order button", "ref": "f1e3"})], True),
    ([("click", {"bid": "3"})], True),
    ([("click", {"bid": "a3"})], False),
    ([("click", {"bid": "4"})], False),
    ([("click", {"element": "Show details", "bid": "4"})], False),
    ([("click", {"element_id": 3})], True),
    ([("click_element", {"index": 3, "description": ""})], True),
    ([("click", {"index": "3"})], True),
    ([("click", {"index": 4}), ("click_element", {"index": 3, "xpath": "//a"})], True),
    ([("click", {"index": 4}), ("scroll_down", {})], False),
]


def test_the_proxy_knows_a_final_click_in_each_form() -> None:
    seen = page_of("", filter(None, PAGE))
    for calls, final in FINAL:
        actions = [call_of(name, arguments).action for name, arguments in calls]
        assert is_final(candidate_of(actions, seen.elements), seen) is final, calls


@pytest.mark.parametrize("kind", ["jsonl", "browser-use", "chat", "inspect"])
def test_half_a_character_is_replaced(tmp_path: Path, kind: str) -> None:
    seen = r"price \ud83d \ude00 \ud83d\ud83d\ude00 \uD83D!"
    talk = f'[{{"role": "user", "content": "{seen}"}}, {{"role": "assistant", "content": "ok"}}]'
    logs = {
        "jsonl": f'{{"goal": "buy", "steps": [{{"observation": "{seen}", "candidates": ["click [1]"]}}]}}',
        "browser-use": json.dumps(history({"go_back": {}}, title="SEEN")).replace("SEEN", seen),
        "chat": talk,
        "inspect": f'{{"samples": [{{"id": 1, "events": [{{"event": "model", "input": {talk[: talk.index("}, ")]}}}], '
        '"output": {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}}]}]}',
    }
    log = written(tmp_path / ("log.json" if kind in ("browser-use", "inspect") else "log.jsonl"), logs[kind])
    (episode,) = imported(kind, log, tmp_path / "store")
    page = episode.steps[0].observation
    replaced = json.loads(f'"{seen}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert replaced.count("\ufffd") == 4
    assert replaced in (page.title, page.text)


def test_inspects_pool_of_messages(tmp_path: Path) -> None:
    """Later versions write each message once; the calls of the model name their places."""
    call = {"id": "1", "function": "click", "arguments": {"index": 7}}
    attached = {"attachments": {"0a": "Page: Buy [7] now"}}

    def sample(number: int, goal: str, *spans: list[list[int]], **more: Any) -> dict[str, Any]:
        pool = [
            {"role": "system", "content": "You use a browser."},
            {"role": "user", "content": goal},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "user", "content": "never shown"},
            {"role": "tool", "tool_call_id": "1", "content": "attachment://0a"},
        ]
        replies = (pool[2], {"role": "assistant", "content": "done"})
        events = [
            {"event": "model", "input": [], "input_refs": refs, "output": {"choices": [{"message": reply}]}}
            for refs, reply in zip(spans, replies, strict=True)
        ]
        return {"id": number, "events": events, "events_data": {"messages": pool, "calls": []}, **more}

    good = [[[0, 2]], [[0, 3], [4, 5]]]
    samples = [sample(n, goal, *good, **attached) for n, goal in enumerate(("Buy a kettle", "Buy a lamp"))]
    samples.append(sample(9, "Beyond the pool", [[0, 2]], [[0, 99]], **attached))
    log = written(tmp_path / "log.json", {"version": 2, "samples": samples})
    assert counts(bestofq("import", "inspect", log, "--store", tmp_path / "first"))["malformed"] == 1
    episodes = imported("inspect", log, tmp_path / "store")
    assert {episode.task.goal for episode in episodes} == {"Buy a kettle", "Buy a lamp"}
    assert len({episode.task.id for episode in episodes}) == 2
    for episode in episodes:
        assert [step.observation.text for step in episode.steps] == [episode.task.goal, "Page: Buy [7] now"]


def test_a_conversation_in_anthropics_blocks(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "1", "name": "click", "input": {"mark": 7}}
    thought = {"type": "thinking", "thinking": "The button buys it.", "signature": "x"}
    image = {"source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture(3)).decode()}}
    shown = [{"type": "text", "text": "Page:\n[8] button 'Pay', clickable"}, {"type": "image", **image}]
    messages = [
        {"role": "user", "content": "Buy a lamp"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "I buy it."}, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": shown}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Bought."}]},
    ]
    log = written(tmp_path / "log.jsonl", {"system": "You use a browser.", "messages": messages})
    (episode,) = imported("chat", log, tmp_path / "store")
    last = episode.steps[-1]
    (bought,), (answered,) = (step.decision.candidates for step in episode.steps)
    assert (episode.task.goal, bought.action, answered.action) == ("Buy a lamp", Click(mark=7), Answer(text="Bought."))
    assert bought.thought == "The button buys it.\nI buy it."
    assert (last.observation.screenshot.width, last.observation.elements[0].name) == (3, "Pay")


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("page [9]", []),
        ("[9]<a >Lamp />", [(9, "link", "Lamp")]),
        ("[9]<a>Lamp</a>\n[10]<a>Oven</a>", [(9, "link", "Lamp"), (10, "link", "Oven")]),
        ("*[9]*<button title='Lamp' />", [(9, "button", "Lamp")]),
    ],
)
def test_the_elements_of_each_version_of_browser_use(page: str, found: list[tuple[int, str, str]]) -> None:
    assert [(one.mark, one.role, one.name) for one in elements_on(page)] == found


def test_webvoyagers_pictures_lie_beside_the_messages(tmp_path: Path) -> None:
    task = tmp_path / "taskShop--1"
    holder = {"type": "image_url", "image_url": {"url": "data:image/png;base64,{b64_img}"}}
    messages: list[dict[str, Any]] = [{"role": "system", "content": "robot"}]
    for reply in ("Action: Wait", "Action: GoBack", "Action: Wait"):
        messages += [
            {"role": "user", "content": [{"type": "text", "text": "Observation: x"}, holder]},
            {"role": "assistant", "content": reply},
        ]
    written(task / "interact_messages.json", [*messages, messages[1]])
    for number in (1, 3, 4):  # the second look failed
        (task / f"screenshot{number}.png").write_bytes(picture(number))
    (episode,) = imported("webvoyager", tmp_path, tmp_path / "store")
    pages: list[Observation | None] = [*(step.observation for step in episode.steps), episode.final]
    assert [page and page.screenshot and page.screenshot.width for page in pages] == [1, None, 3, 4]
