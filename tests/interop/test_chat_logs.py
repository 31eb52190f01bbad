"""Chat logs with tool calls, and inspect's dumps."""

import json
from pathlib import Path
from typing import Any

from logs import bestofq, counts, imported, written

from bestofq.cli.options import LOGS
from bestofq.core.actions import Answer, Click, Goto, Other
from bestofq.interop.importing import READERS

_DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """An assistant's message with a tool call, in OpenAI's form."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "I go on.",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }


def test_a_conversation_is_an_episode(tmp_path: Path) -> None:
    shown = [
        {"type": "text", "text": "[7] button 'Buy'"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_DOT}"}},
    ]
    patch = {"name": "apply_patch", "input": "*** Begin"}
    messages = [
        {"role": "system", "content": "You shop."},
        {"role": "user", "content": "buy a kettle"},
        called("goto", url="http://shop.example/"),
        {"role": "tool", "tool_call_id": "1", "content": shown},
        called("click", mark=7),
        {"role": "tool", "tool_call_id": "2", "content": "bought"},
        called("hover", x=3),
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
    assert (steps[0].decision.candidate.thought, episodes[0].task.goal) == ("I go on.", "buy a kettle")
    assert episodes[0].verdict.outcome == "unjudged"
    assert steps[5].terminated


def test_inspect_samples_have_candidates_and_scores(tmp_path: Path) -> None:
    def reply(text: str, **arguments: Any) -> dict[str, Any]:
        calls = [{"id": "1", "function": "click", "arguments": arguments, "type": "function"}] if arguments else None
        return {"message": {"role": "assistant", "content": text, "tool_calls": calls}}

    asked = [{"role": "user", "content": "buy a kettle"}]
    later = [*asked, reply("", mark=1)["message"], {"role": "tool", "content": "a kettle"}]
    events = [
        {"event": "sample_init", "sample": 1},
        {
            "event": "model",
            "input": asked,
            "tools": [{"name": "click"}],
            "output": {"choices": [reply("", mark=1), reply("", mark=2)]},
        },
        {"event": "model", "input": later, "tools": [], "output": {"choices": [reply("bought")]}},
    ]
    graded = [{"role": "user", "content": "is it right?"}]
    events.append({"event": "model", "input": graded, "tools": [], "output": {"choices": [reply("GRADE: C")]}})
    scores = (
        {"match": {"value": "C", "explanation": "it is right"}},
        {"match": {"value": "I"}},
        {"match": {"value": 0.5}},
        {},
    )
    samples = [{"id": number, "events": events, "scores": score} for number, score in enumerate(scores)]
    log = written(tmp_path / "dump.json", {"eval": {"task": "shop"}, "samples": samples})
    assert (
        counts(bestofq("import", "inspect", log, "--store", tmp_path / "first"))["steps with several candidates"] == 4
    )
    episodes = imported("inspect", log, tmp_path / "store")
    assert sorted((one.verdict.outcome, one.verdict.reward, one.verdict.judge) for one in episodes) == [
        ("failure", 0.0, "match"),
        ("failure", 0.5, "match"),
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
    attachments = {"0a": goal, "0b": page, "0c": f"data:image/png;base64,{_DOT}", "0d": "the second"}
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


def test_the_kinds_named_in_help_are_those_there_are() -> None:
    assert {*LOGS} == {*READERS}
