"""Where candidates come from: drawn one by one from a model, or from a chat model with instructions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from bestofq.agents.dialects.commands import COMMANDS, CommandsDialect
from bestofq.agents.dialects.composite import CompositeDialect
from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.prompting import SAMPLES_PER_CANDIDATE, TEMPERATURE, CandidateSource
from bestofq.agents.structured_output import ask, state_prompts
from bestofq.core.actions import Wait, action_text
from bestofq.core.decision import Candidate, Proposal, State, distinct, finite
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel, VisionModel
from bestofq.core.usage import attach_usage, merge_usage

Dialect = CommandsDialect | CompositeDialect  # how a prompt asks for one action, and how its reply is read
ChatDialect = JsonDialect | CompositeDialect
"""How messages ask for n actions, or for one in each reply, and how its reply is read."""
_JSON = JsonDialect()


@dataclass(frozen=True)
class SamplingProposer:
    """`Proposer` over a model in its own prompt, here or behind an endpoint: the greedy reply first, then samples.

    The model writes `1 + (n - 1) · samples_per_candidate` replies over one key-value cache. Replies that are invalid or
    repeat an action are dropped, so a sure model may give fewer than n candidates. The draws come from
    `State.step_seed`: the same prompt and seed give the same candidates, whatever else runs.
    """

    model: LanguageModel
    _: KW_ONLY
    temperature: float = TEMPERATURE
    samples_per_candidate: int = SAMPLES_PER_CANDIDATE
    max_new_tokens: int = 40
    dialect: Dialect = COMMANDS

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ReplyError, with the usage and the replies, when no draw is a valid action."""
        replies = 1 + (n - 1) * self.samples_per_candidate
        return await self._draw(state, n, replies=replies, greedy=True)

    async def sample(self, state: State) -> Proposal:
        """The first valid of `samples_per_candidate` draws, none of them greedy. ReplyError as `propose`."""
        return await self._draw(state, 1, replies=self.samples_per_candidate, greedy=False)

    async def _draw(self, state: State, n: int, *, replies: int, greedy: bool) -> Proposal:
        generation = await self.model.generate(
            Request(
                messages=user(self.dialect.prompt(state)),
                n=replies,
                greedy=greedy,
                temperature=self.temperature,
                max_tokens=self.max_new_tokens,
                seed=state.step_seed,
                log_probs=True,
            )
        )
        usage, dialect = (generation.usage,), self.dialect
        try:
            candidates = _read_each(
                generation.replies,
                lambda reply: dialect.parse(reply.text, state.observation),
                keep_ids=dialect.keeps_ids,
            )
        except ReplyError as error:
            texts = [reply.text for reply in generation.replies]
            problem = f"none of {len(texts)} replies of {self.model.name} is an action: {error}"
            raise ReplyError(problem, usage=usage, replies=texts) from error
        return Proposal(candidates=candidates[:n], usage=usage)


@dataclass(frozen=True)
class ChatProposer:
    """`Proposer` over a model that follows instructions, behind an endpoint or here (Best-of-Q, A.5; Agent Q, 3.1).

    In the JSON dialect one reply holds a list of all candidates, its first the greedy choice. Such candidates have no
    log-probability: each depends on those written before it, so no sum over the reply's tokens is log π(a|s). If a list
    brings too few distinct actions, `candidates="auto"` draws the others one by one at the model's temperature, each
    as a reply of its own. "list" leaves it at that, as the paper does.

    With `candidates="samples"`, `log_probs` or `votes`, and always in the composite dialect, every candidate is a reply
    of its own. The first is greedy, the others have the model's temperature, and repeated actions are dropped. With
    `log_probs` a candidate has its reply's log-probability, thought and note included, if the endpoint gives it.

    Replies without a valid candidate get one repair turn, then a fresh sample. Then the candidate is a recorded no-op
    (a short wait) with the last reply, so that the episode continues.
    """

    model: VisionModel
    dialect: ChatDialect = _JSON
    screenshots: int = 1  # the last so many, the current one among them
    log_probs: bool = False
    votes: bool = False
    temperature: float | None = None  # None: the endpoint's own
    max_tokens: int | None = None
    candidates: CandidateSource = "auto"

    async def propose(self, state: State, n: int) -> Proposal:
        """1 to n candidates. ModelError when the endpoint gives no reply, ContextError when nothing is left to drop,
        ConfigError when elements are points and there is no picture."""
        if self.candidates == "samples" or self.log_probs or self.votes or self.dialect.single:
            return await self._ask(state, 1, replies=n, greedy=True)
        listed = await self._ask(state, n)
        missing = n - len(listed.candidates)
        if self.candidates == "list" or listed.failed or not missing:
            return listed
        with attach_usage(listed.usage):
            drawn = await self._ask(state, 1, replies=missing, attempts=1)
        candidates = listed.candidates if drawn.failed else distinct((*listed.candidates, *drawn.candidates))
        return Proposal(candidates=candidates, usage=merge_usage((*listed.usage, *drawn.usage)))

    async def sample(self, state: State) -> Proposal:
        """One candidate, drawn at the model's temperature. Errors as `propose`."""
        return await self._ask(state, 1)

    async def _ask(
        self, state: State, n: int, *, replies: int = 1, greedy: bool = False, attempts: int = 3
    ) -> Proposal:
        """Propose the candidates of `replies` with n candidates each: several of one reply, or one of each reply."""
        dialect = self.dialect

        def read(replies: Sequence[Reply], picture: Picture | None) -> Sequence[Candidate]:
            def read_one(reply: Reply) -> Candidate:
                candidate, *more = dialect.read(reply, state.observation, 2, picture)
                if more and self.log_probs:
                    raise ReplyError("expected one candidate, not several")
                return candidate

            if n > 1:
                return dialect.read(replies[0], state.observation, n, picture)
            return _read_each(replies, read_one, keep_ids=dialect.single)

        prompts = state_prompts(
            self.model,
            state,
            Request(
                messages=(),
                greedy=False,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                schema=dialect.schema(n, state.observation),
                name="candidates",
                log_probs=self.log_probs,
            ),
            system=partial(dialect.system, state, n),
            text=partial(dialect.user, state),
            screenshots=self.screenshots,
            pointing=dialect.pointing,
        )
        try:
            candidates, usage = await ask(
                self.model,
                prompts,
                read,
                "proposer",
                attempts=attempts,
                n=replies,
                greedy=greedy,
                repair=dialect.repair,
            )
        except ReplyError as error:
            wait, thought = Wait(seconds=1), f"no valid reply: {error}"
            no_op = Candidate(action=wait, label=action_text(wait), thought=thought, reply=error.replies[-1])
            return Proposal(candidates=(no_op,), usage=error.usage, failed=True)
        return Proposal(candidates=tuple(candidates), usage=usage)


def _read_each(
    replies: Iterable[Reply], read: Callable[[Reply], Candidate], *, keep_ids: bool
) -> tuple[Candidate, ...]:
    """Return the valid candidates with distinct actions, one a reply, each with its reply's log-probability; with
    `keep_ids` the tokens as drawn, too, to tune a policy on. ReplyError with the first complaint if none is valid."""
    candidates, complaints = [], []
    for reply in replies:
        try:
            candidate = read(reply)
        except ReplyError as error:
            complaints.append(str(error))
        else:
            ids = reply.ids if keep_ids and reply.ids else None
            drawn = {"log_prob": finite(reply.log_prob), "reply_ids": ids, "prompt_hash": ids and reply.prompt_hash}
            candidates.append(candidate.model_copy(update=drawn))
    if not candidates:
        raise ReplyError(complaints[0] if complaints else "the model gave no reply")
    return distinct(candidates)
