"""A model behind an OpenAI-compatible endpoint that is asked as `LocalModel` is: one prompt, a greedy reply, draws.

The prompt is one user message. A chat template that passes it through, as the pocket model's does, lets the model
read the very tokens it reads here. Retries, pacing and deadlines are `ChatModel`'s.
"""

from bestofq.models.chat import ChatModel, ChatReply, ChatRequest, Choice, Message
from bestofq.models.language_model import Generation, Reply, Request


class EndpointModel:
    """`LanguageModel` over a chat endpoint.

    Greedy decoding is temperature 0 in one call; the draws are asked for together with `n`, and one by one, each with
    the next seed, from an endpoint that gives one reply whatever `n` says. Which draws a seed stands for is up to the
    endpoint: behind `models.serving` they are those of `LocalModel`. Tokens are counted as the endpoint counts them,
    so that the prompt counts once a call.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def generate(self, request: Request) -> Generation:
        """`draws` replies, the first greedy unless all are sampled. ConfigError, ContextError and ModelError as
        `ChatModel.reply`."""
        asked = [await self._ask(request, n=1, temperature=0.0, seed=request.seed)] if request.greedy else []
        drawn: list[Choice] = []
        while left := request.draws - request.greedy - len(drawn):
            seed = request.seed + len(asked) - request.greedy
            asked.append(await self._ask(request, n=left, temperature=request.temperature, seed=seed))
            drawn += asked[-1].choices[:left]
        prices = [reply.usd for reply in asked if reply.usd is not None]
        return Generation(
            replies=tuple(_reply(choice, request) for choice in (*(asked[0].choices[: request.greedy]), *drawn)),
            prompt_tokens=sum(reply.tokens_in for reply in asked),
            reply_tokens=sum(reply.tokens_out for reply in asked),
            calls=len(asked),
            usd=sum(prices) if len(prices) == len(asked) else None,
        )

    async def _ask(self, request: Request, *, n: int, temperature: float, seed: int) -> ChatReply:
        return await self._model.reply(
            ChatRequest(
                messages=(Message(role="user", text=request.prompt),),
                temperature=temperature,
                max_tokens=request.max_new_tokens,
                seed=seed,
                n=n,
                log_probs=True,
            )
        )


def _reply(choice: Choice, request: Request) -> Reply:
    text = choice.text.partition("\n")[0] if request.one_line else choice.text
    return Reply(text, choice.log_prob, (), choice.finish != "truncated")
