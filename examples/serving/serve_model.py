"""A `LocalModel` as an OpenAI-compatible endpoint: chat completions without streaming, tools or structured output.

    .venv/bin/python -m examples.serving.serve_model --model pocket --port 8000

The messages' texts, joined by line breaks, are the prompt. Temperature 0 is greedy. Above it the draws depend on `n`,
`seed` and the prompt alone: they are the draws 2 to n + 1 of `LocalModel` for that seed. Log-probabilities are those at
temperature 1. With `return_token_ids` the answer has the tokens in vLLM's form.
"""

import argparse
import json
import math
import time
import uuid
from typing import Any, Literal

import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.routing import Route

from bestofq.core.language import Message, Reply, Request
from bestofq.models.local import LocalModel
from bestofq.models.shipped import find_model
from bestofq.serve.guard import UpstreamGuard


class _Part(BaseModel):
    type: Literal["text"]
    text: str


class _Message(BaseModel):
    role: Literal["system", "user", "assistant"]
    content: str | list[_Part]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class _ChatBody(BaseModel):
    """What is understood of a request; anything else in it is refused, never passed over in silence."""

    model_config = ConfigDict(extra="forbid")

    model: str
    messages: list[_Message] = Field(min_length=1)
    max_tokens: int = Field(default=64, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=10)
    n: int = Field(default=1, ge=1, le=128)
    seed: int = 0
    logprobs: bool = False
    return_token_ids: bool = False
    stream: Literal[False] = False


def model_app(model: LocalModel) -> Starlette:
    """`POST /v1/chat/completions` and `GET /v1/models`, as an ASGI application over one model."""

    async def chat(request: HttpRequest) -> JSONResponse:
        try:
            body = _ChatBody.model_validate(json.loads(await request.body()))
        except ValidationError as error:
            first = error.errors()[0]
            return _refusal(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        except ValueError:
            return _refusal(400, "the body is not JSON")
        if body.model != model.name:
            return _refusal(404, f"there is no model {body.model!r} here: it is {model.name!r}")
        greedy = body.temperature == 0
        wanted = Request(
            messages=[Message(role=message.role, text=message.text) for message in body.messages],
            n=1 if greedy else body.n,
            greedy=greedy,
            temperature=body.temperature,
            max_tokens=body.max_tokens,
            seed=body.seed,
        )
        context = getattr(model.model.config.get_text_config(), "max_position_embeddings", math.inf)
        if (length := len(model.encode(wanted.prompt)) + body.max_tokens) > context:
            return _refusal(400, f"maximum context length is {context} tokens: prompt and max_tokens make {length}")
        generation = await model.generate(wanted)
        replies = generation.replies * body.n if greedy else generation.replies
        completion = _completion(model, replies, generation.usage.tokens_in, body.logprobs)
        if body.return_token_ids:
            completion["prompt_token_ids"] = model.encode(*wanted.messages)
            for choice, reply in zip(completion["choices"], replies, strict=True):
                choice["token_ids"] = reply.ids
        return JSONResponse(completion)

    async def models(_: HttpRequest) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": model.name, "object": "model", "created": 0}]})

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/models", models)])


def _completion(model: LocalModel, replies: tuple[Reply, ...], prompt_tokens: int, log_probs: bool) -> dict[str, Any]:
    drawn = sum(reply.tokens for reply in replies)
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model.name,
        "choices": [_choice(model, index, reply, log_probs) for index, reply in enumerate(replies)],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": drawn, "total_tokens": prompt_tokens + drawn},
    }


def _choice(model: LocalModel, index: int, reply: Reply, log_probs: bool) -> dict[str, Any]:
    tokens = [
        {"token": model.tokenizer.decode([token]), "logprob": log_prob, "bytes": None, "top_logprobs": []}
        for token, log_prob in zip(reply.ids, reply.log_probs, strict=True)
    ]
    return {
        "index": index,
        "message": {"role": "assistant", "content": reply.text, "refusal": None},
        "finish_reason": "stop" if reply.finished else "length",
        "logprobs": {"content": tokens, "refusal": None} if log_probs else None,
    }


def _refusal(status: int, message: str) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
    return JSONResponse({"error": error}, status_code=status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="pocket", help="directory, hub name or a shipped model")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    served = UpstreamGuard(model_app(LocalModel.load(find_model(args.model))))
    uvicorn.run(served, host="127.0.0.1", port=args.port)
