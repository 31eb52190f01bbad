"""An inspect_ai task with a tool, through `bestofq serve`: calls are recorded, episodes judged by its score.

    .venv-browser-use/bin/pip install inspect_ai openai
    .venv-browser-use/bin/python experiments/serve-browser-use/inspect_tools.py --serve http://127.0.0.1:8770

Any endpoint may stand behind `serve`; `--script` starts one that calls the tool and then submits, on `--upstream-port`.
"""

import argparse
import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, tool


@tool  # type: ignore[untyped-decorator]
def price() -> Tool:
    async def execute(product: str) -> str:
        """What a product costs.

        Args:
            product: Its name.
        """
        return {"kettle": "23 dollars", "lamp": "41 dollars"}.get(product, "unknown")

    return execute


class Scripted(BaseHTTPRequestHandler):
    """A model that asks for the price, and then tells it."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = body["messages"][-1]
        if last["role"] == "tool":
            message: dict[str, object] = {"role": "assistant", "content": f"It costs {last['content']}."}
        else:
            said = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
            arguments = json.dumps({"product": said.rstrip("?").split()[-1]})
            call = {"id": "call_0", "type": "function", "function": {"name": "price", "arguments": arguments}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        reply = {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        reply["usage"] = usage
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Not told."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", required=True, help="bestofq serve, without /v1")
    parser.add_argument("--upstream-port", type=int, default=8802)
    parser.add_argument("--script", action="store_true")
    args = parser.parse_args()
    if args.script:
        server = ThreadingHTTPServer(("127.0.0.1", args.upstream_port), Scripted)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, right in (("kettle", "23"), ("lamp", "41")):
        base = f"{args.serve}/sessions/{name}/v1"
        model = get_model("openai-api/bestofq/m", base_url=base, api_key="none", memoize=False)
        sample = Sample(input=f"What is the price of the {name}?", target=right)
        task = Task(dataset=[sample], solver=[use_tools(price()), generate()], scorer=includes())
        [log] = eval(task, model=model, display="none", log_dir="runs/inspect-logs")
        assert log.samples, log.error
        score = next(iter((log.samples[0].scores or {}).values()))
        outcome = json.dumps({"success": score.value == "C", "judge": "inspect's includes"}).encode()
        there = f"{args.serve}/sessions/{name}/outcome"
        asked = urllib.request.Request(there, outcome, {"content-type": "application/json"})
        told = urllib.request.urlopen(asked).read().decode()
        sys.stdout.write(f"{name} {score.value} {told}\n")


if __name__ == "__main__":
    main()
