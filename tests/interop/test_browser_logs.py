"""Logs of web agents, small ones written by hand: browser-use, ATIF, WebVoyager."""

import json
from pathlib import Path
from typing import Any

import pytest
from logs import DOT, bestofq, counts, imported, picture, written

from bestofq.cli.options import LOGS
from bestofq.core.actions import Answer, Click, GoBack, Goto, Other, Scroll, Wait, Write
from bestofq.core.decision import Episode
from bestofq.core.errors import DataError
from bestofq.core.observation import Box
from bestofq.core.usage import Usage
from bestofq.store.store import Store


def actions(episode: Episode) -> list[object]:
    return [step.decision.candidate.action for step in episode.steps]


def labels(episode: Episode) -> list[str]:
    return [step.decision.candidate.label for step in episode.steps]


def history(judgement: object) -> dict[str, Any]:
    """browser-use: a search, an action of two parts that fails, and the answer."""

    def seen(*elements: object, **more: object) -> dict[str, Any]:
        page = {"url": "http://shop.example/", "title": "Shop", "tabs": [], "interacted_element": elements}
        return page | more

    box = {"x": 1, "y": 2, "width": 30, "height": 4}
    field = {"ax_name": "Search", "node_name": "INPUT", "bounds": box, "x_path": "html/body/input"}
    first = {
        "model_output": {
            "thinking": "I look for kettles.",
            "memory": "nothing yet",
            "next_goal": "search",
            "evaluation_previous_goal": "unknown",
            "action": [{"input": {"index": 3, "text": "kettle"}}],
        },
        "result": [{"is_done": False, "extracted_content": "typed kettle"}],
        "state": seen(field, tabs=[{"url": "http://shop.example/", "title": "Shop"}], screenshot_path="one.png"),
        "metadata": {"step_number": 1},
        "state_message": "<user_request>\nbuy a kettle\n</user_request>\n"
        "<browser_state>\n[3]<input Search />\n</browser_state>",
    }
    second = {
        "model_output": {"action": [{"click": {"index": 5}}, {"send_keys": {"keys": "Enter"}}]},
        "result": [{"error": "element 5 is gone"}],
        "state": seen(None, None, url="http://shop.example/?q=kettle"),
        "metadata": None,
        "state_message": "[5]<a Red kettle />",
    }
    last = {
        "model_output": {"action": [{"done": {"text": "bought", "success": True}}]},
        "result": [{"is_done": True, "success": True, "judgement": judgement}],
        "state": seen(None),
    }
    return {"history": [first, second, last]}


@pytest.mark.parametrize(
    ("judgement", "outcome"),
    [
        (None, "unjudged"),
        ({"verdict": True}, "success"),
        ({"verdict": False, "failure_reason": "two kettles"}, "failure"),
        ({"verdict": False, "impossible_task": True}, "impossible"),
        ({"verdict": False, "reached_captcha": True}, "blocked"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_browser_use_is_judged_by_its_judge_alone(tmp_path: Path, judgement: object, outcome: str) -> None:
    """The agent itself says that it succeeded, in each of them."""
    (episode,) = imported("browser-use", written(tmp_path / "run.json", history(judgement)), tmp_path / "store")
    assert episode.verdict.outcome == outcome
    assert bool(episode.verdict.judge) == (judgement is not None)


def test_browser_use_keeps_pages_thoughts_and_what_has_no_field(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(data := picture(8, 6))
    (episode,) = imported("browser-use", written(tmp_path / "run.json", history(None)), tmp_path / "store")
    first, second, last = episode.steps
    both = "click [5]; press Enter"
    assert actions(episode) == [Write(mark=3, text="kettle"), Other(text=both), Answer(text="bought")]
    assert labels(episode) == ['write textbox Search "kettle"', both, 'answer "bought"']
    assert (episode.task.goal, episode.task.start_url) == ("buy a kettle", "http://shop.example/")
    assert first.observation.elements[0].box == Box(1, 2, 30, 4)
    assert first.observation.tabs == ("Shop",)
    assert [step.observation.text for step in episode.steps] == ["[3]<input Search />", "[5]<a Red kettle />", ""]
    said = first.decision.candidate
    assert (said.thought, said.note, said.explanation) == ("I look for kettles.", "nothing yet", "search")
    assert "evaluation_previous_goal" in (said.reply or "")
    assert second.observation.notices == ("typed kettle",)
    assert last.observation.error == "element 5 is gone"
    kept = json.loads(first.decision.log or "")
    assert "<user_request>" in kept["state_message"]
    assert kept["metadata"] == {"step_number": 1}
    assert kept["state"]["interacted_element"][0]["x_path"] == "html/body/input"
    shot = first.observation.screenshot
    assert (shot.width, shot.height) == (8, 6)
    with Store.open(tmp_path / "store", read_only=True) as opened:
        assert opened.screenshots.load(shot).data == data


def test_atif(tmp_path: Path) -> None:
    web = {"axtree": "[7] button 'Add to cart'", "url": "http://shop.example/kettle", "html": "<button>"}
    log = {
        "schema_version": "ATIF-v1.7",
        "steps": [
            {"source": "system", "message": "You shop."},
            {"source": "user", "message": "buy a kettle"},
            {
                "source": "agent",
                "message": "",
                "reasoning_content": "to the shop",
                "tool_calls": [{"tool_call_id": "1", "function_name": "navigate", "arguments": {"url": web["url"]}}],
                "observation": {"results": [{"source_call_id": "1", "content": "loaded", "extra": {"web": web}}]},
                "metrics": {"prompt_tokens": 12},
            },
            {
                "source": "agent",
                "message": "add it",
                "tool_calls": [{"tool_call_id": "2", "function_name": "click", "arguments": {"index": 7}}],
                "observation": {"results": [{"source_call_id": "2", "content": "1 in the cart"}]},
            },
            {"source": "agent", "message": "It is bought."},
        ],
    }
    (episode,) = imported("atif", written(tmp_path / "trajectory.json", log), tmp_path / "store")
    assert actions(episode) == [Goto(url=web["url"]), Click(mark=7), Answer(text="It is bought.")]
    assert labels(episode)[1] == "click button Add to cart"
    assert (episode.task.goal, episode.verdict.outcome) == ("buy a kettle", "unjudged")
    first, second, last = episode.steps
    assert (second.observation.url, second.observation.text) == (web["url"], web["axtree"])
    assert (first.decision.candidate.thought, second.decision.candidate.thought) == ("to the shop", "add it")
    assert last.observation.text == "1 in the cart"
    assert json.loads(first.decision.log or "")["metrics"] == {"prompt_tokens": 12}
    assert "<button>" in (first.decision.log or "")
    assert json.loads(episode.provenance.log or "")["schema_version"] == "ATIF-v1.7"


def test_atif_has_pictures_usage_and_copied_steps_that_are_no_decisions(tmp_path: Path) -> None:
    for name, width in (("begun.png", 8), ("added.png", 9)):
        (tmp_path / name).write_bytes(picture(width))

    def part(path: str) -> dict[str, Any]:
        return {"type": "image", "source": {"media_type": "image/png", "path": path}}

    def acted(mark: int, content: object, **more: Any) -> dict[str, Any]:
        call = {"tool_call_id": "1", "function_name": "click", "arguments": {"mark": mark}}
        results = {"results": [{"source_call_id": "1", "content": content}]}
        return {"source": "agent", "message": f"I press {mark}", "tool_calls": [call], "observation": results, **more}

    goal = {"source": "user", "message": [{"type": "text", "text": "buy a kettle"}, part("begun.png")]}
    copied = acted(1, "[1] button 'Home'", is_copied_context=True), acted(2, "[3] button 'Buy'", is_copied_context=True)
    used = {"prompt_tokens": 12, "completion_tokens": 3, "cost_usd": 0.5, "cached_tokens": 4}
    added = acted(3, [{"type": "text", "text": "added"}, part("lost.png"), part("added.png")], metrics=used)
    last = {"source": "agent", "message": "It is bought."}
    short, long = [goal, added, last], [{**goal, "is_copied_context": True}, *copied, added, last]
    for name, steps in (("short", short), ("long", long)):
        written(tmp_path / f"{name}.json", {"schema_version": "ATIF-v1.7", "steps": steps})
    (begun,) = imported("atif", tmp_path / "short.json", tmp_path / "short")
    shots = [step.observation.screenshot for step in begun.steps]
    assert [shot and shot.width for shot in shots] == [8, 9]
    assert [step.decision.usage for step in begun.steps] == [
        (Usage(role="proposer", tokens_in=12, tokens_out=3, calls=1, usd=0.5),),
        (),
    ]
    assert json.loads(begun.steps[0].decision.log or "")["metrics"] == used
    (gone_on,) = imported("atif", tmp_path / "long.json", tmp_path / "long")
    assert actions(gone_on) == [Click(mark=3), Answer(text="It is bought.")]
    assert (gone_on.task.goal, labels(gone_on)[0]) == ("buy a kettle", "click button Buy")
    assert gone_on.steps[0].observation.text == "[3] button 'Buy'\nbuy a kettle\nI press 1\nI press 2"
    assert json.loads(gone_on.provenance.log or "")["steps"] == long[:3]


def test_webvoyager(tmp_path: Path) -> None:
    begun = (
        "Now given a task: Find a kettle  Please interact with https://shop.example/ and get the answer. \n"
        'Observation: …\n[0]: "Home";\t[2]: <input> "Search";\t[3]: <button> "Go";'
    )
    replies = (
        "Thought: I search.\nAction: Type [2]; red kettle",
        "Thought: Down.\nAction: Scroll [WINDOW]; down",
        "Action: Click [0]",
        'Thought: Go.\nAction: Click [3].\n\nObservation: [1]: "x"\nThought: Done.\nAction: ANSWER; [made up]',
        "Thought: I am lost.",
        "Action: Wait",
        "Action: GoBack",
        "Action: Google",
        "Action: ANSWER; [the red one]",
    )
    messages = [{"role": "system", "content": "You are a robot."}]
    for number, reply in enumerate(replies):
        page = begun if number == 0 else f"Observation: page {number}"
        messages += [
            {"role": "user", "content": [{"type": "text", "text": page}]},
            {"role": "assistant", "content": reply},
        ]
    written(tmp_path / "results" / "taskShop--4" / "interact_messages.json", messages)
    (episode,) = imported("webvoyager", tmp_path / "results", tmp_path / "store")
    assert actions(episode) == [
        Write(mark=2, text="red kettle", enter=True),
        Scroll(direction="down"),
        Other(text="Click [0]"),
        Click(mark=3),
        Other(text="no action"),
        Wait(seconds=5),
        GoBack(),
        Goto(url="https://www.google.com/"),
        Answer(text="the red one"),
    ]
    task = episode.task
    assert (task.id, task.goal, task.start_url) == ("Shop--4", "Find a kettle", "https://shop.example/")
    assert labels(episode)[0] == 'write textbox Search "red kettle" enter'
    assert episode.steps[0].decision.candidate.thought == "I search."
    assert episode.steps[1].observation.text == "Observation: page 1"
    assert episode.verdict.outcome == "unjudged"


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """An assistant's message with a tool call, in OpenAI's form."""
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": "I go on.", "tool_calls": [call]}


def test_a_conversation_is_an_episode(tmp_path: Path) -> None:
    shown = [
        {"type": "text", "text": "[7] button 'Buy'"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}},
    ]
    patch = {"name": "apply_patch", "input": "*** Begin"}
    messages = [
        {"role": "developer", "content": "You shop."},
        {"role": "user", "content": "buy a kettle"},
        called("goto", url="http://shop.example/") | {"reasoning_content": "To the shop."},
        {"role": "tool", "tool_call_id": "1", "content": shown},
        called("click", mark=7),
        {"role": "tool", "tool_call_id": "2", "content": "bought"},
        {"role": "assistant", "content": None, "function_call": {"name": "hover", "arguments": '{"x": 3}'}},
        {"role": "tool", "tool_call_id": "3", "content": "nothing"},
        called("wait"),
        {"role": "tool", "tool_call_id": "4", "content": "waited"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "5", "type": "custom", "custom": patch}]},
        {"role": "tool", "tool_call_id": "5", "content": "patched"},
        {"role": "assistant", "content": "Done."},
    ]
    log = written(tmp_path / "chats.jsonl", {"messages": messages, "user": "u1"}, messages, {"messages": 3})
    assert counts(bestofq("import", "chat", log, "--store", tmp_path / "first"))["malformed"] == 1
    episodes = imported("chat", log, tmp_path / "store")
    assert len(episodes) == 2
    kept = [json.loads(one.provenance.log or "") for one in episodes]
    assert sorted(one.get("user", "") for one in kept) == ["", "u1"]
    assert kept[0]["system"] == ["You shop."]
    steps = episodes[0].steps
    assert [step.decision.candidate.action for step in steps] == [
        Goto(url="http://shop.example/"),
        Click(mark=7),
        Other(text='hover {"x": 3}'),
        Other(text="wait"),
        Other(text='apply_patch {"input": "*** Begin"}'),
        Answer(text="Done."),
    ]
    assert steps[1].decision.candidate.label == "click button Buy"
    assert steps[1].observation.screenshot is not None
    assert (steps[0].observation.text, steps[2].observation.text) == ("buy a kettle", "bought")
    assert (steps[0].decision.candidate.thought, episodes[0].task.goal) == ("To the shop.\nI go on.", "buy a kettle")
    assert episodes[0].verdict.outcome == "unjudged"
    assert steps[5].terminated


def test_inspect_samples_have_candidates_and_scores(tmp_path: Path) -> None:
    def reply(text: str, **arguments: Any) -> dict[str, Any]:
        calls = [{"id": "1", "function": "click", "arguments": arguments, "type": "function"}] if arguments else None
        return {"message": {"role": "assistant", "content": text, "tool_calls": calls}}

    asked = [{"role": "user", "content": "buy a kettle"}]
    later = [*asked, reply("", mark=1)["message"], {"role": "tool", "content": "a kettle"}]
    graded = [{"role": "user", "content": "is it right?"}]

    def called(asked: object, *replies: object, **more: object) -> dict[str, Any]:
        return {"event": "model", "input": asked, "output": {"choices": [*replies]}, **more}

    events = [
        {"event": "sample_init", "sample": 1},
        called(asked, reply("", mark=1), reply("", mark=2), tools=[{"name": "click"}]),
        called(later, reply("bought"), tools=[]),
        called(graded, reply("GRADE: C"), tools=[]),
    ]
    matches = {"value": "C", "explanation": "it is right"}, *({"value": one} for one in ("I", 0.5, "P", "N"))
    scores = [*({"match": match} for match in matches), {}]
    samples = [{"id": number, "events": events, "scores": score} for number, score in enumerate(scores)]
    log = written(tmp_path / "dump.json", {"eval": {"task": "shop"}, "samples": samples})
    said = bestofq("import", "inspect", log, "--store", tmp_path / "first")
    assert counts(said)["steps with several candidates"] == 6
    episodes = imported("inspect", log, tmp_path / "store")
    assert sorted((one.verdict.outcome, one.verdict.reward, one.verdict.judge) for one in episodes) == [
        *[("failure", 0.0, "match")] * 2,
        *[("failure", 0.5, "match")] * 2,
        ("success", 1.0, "match"),
        ("unjudged", 0.0, ""),
    ]
    (won,) = (one for one in episodes if one.verdict.outcome == "success")
    first, last = won.steps
    assert [one.action for one in first.decision.candidates] == [Click(mark=1), Click(mark=2)]
    assert (last.observation.text, last.decision.candidate.action) == ("a kettle", Answer(text="bought"))
    assert (won.task.goal, won.verdict.reason) == ("buy a kettle", "it is right")
    assert json.loads(first.decision.log or "")["tools"] == [{"name": "click"}]
    kept = json.loads(won.provenance.log or "")
    assert kept["events"] == [events[0], events[3]]  # the grader's call is no decision


def test_inspects_attachments_stand_where_they_belong(tmp_path: Path) -> None:
    goal, page = "buy a kettle; " * 10, "\n".join(f"[{mark}] button 'Kettle {mark}'" for mark in (1, 2))
    call = {"id": "1", "function": "click", "arguments": {"mark": 2}, "type": "function"}
    asked = [{"role": "user", "content": "attachment://0a"}]
    act = {"role": "assistant", "content": [{"type": "text", "text": "attachment://0d"}], "tool_calls": [call]}
    shown = [{"type": "text", "text": "attachment://0b"}, {"type": "image", "image": "attachment://0c"}]
    later = [*asked, act, {"role": "tool", "content": shown}]
    events = [
        {"event": "model", "input": seen, "output": {"choices": [{"message": act}]}, "call": {"request": seen}}
        for seen in (asked, later)
    ]
    attachments = {"0a": goal, "0b": page, "0c": f"data:image/png;base64,{DOT}", "0d": "the second"}
    samples = [{"id": 1, "events": events, "attachments": attachments}, {"id": 2, "events": events}]
    log = written(tmp_path / "dump.json", {"samples": samples})
    said = bestofq("import", "inspect", log, "--store", tmp_path / "first")
    assert counts(said)["malformed"] == 1
    assert "it has no 'attachment://0a'" in said
    (episode,) = imported("inspect", log, tmp_path / "store")
    first, last = episode.steps
    assert (episode.task.goal, first.observation.text, last.observation.text) == (goal, goal, page)
    assert (last.decision.candidate.label, last.decision.candidate.thought) == ("click button Kettle 2", "the second")
    assert last.observation.screenshot is not None
    assert json.loads(last.decision.log or "")["call"]["request"] == later  # each kept once: with the episode
    assert json.loads(episode.provenance.log or "")["attachments"] == attachments


@pytest.mark.parametrize("kind", sorted({*LOGS} - {"jsonl"}))
@pytest.mark.parametrize("record", [{}, [], {"steps": [], "history": [], "messages": [], "samples": [{}]}])
def test_json_of_another_kind_is_no_log(tmp_path: Path, kind: str, record: object) -> None:
    log = written(tmp_path / "interact_messages.json", record)
    with pytest.raises(DataError, match=rf"{log} holds .* as {kind}: .*\bit (holds no|has no|has another)"):
        bestofq("import", kind, log, "--store", tmp_path / "store")
