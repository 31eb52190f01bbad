"""What an episode that is still to be played will use: the mean of those stored, else stated assumptions."""

from collections.abc import Sequence
from typing import NamedTuple

from bestofq.config.agents import AGENTS, AgentKind, reads_q
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Episode
from bestofq.core.tree import SearchTree
from bestofq.core.usage import Role, Usage, merge_usage
from bestofq.models.chat import HERE, ChatConfig
from bestofq.models.prices import price_of
from bestofq.search.config import SearchConfig

STEPS = 2 / 3  # of the limit: 20 of 30 in Best-of-Q, 300,000 transitions (A.2) of 15,112 episodes (Table 1)
SECONDS = 10.0  # a step: the page, the proposal, the localizer
PROMPT, CANDIDATE = 800, 100  # tokens: instructions, goal and history; a candidate with thought and note
PIXELS, CHARACTERS = 28 * 28, 4  # a token's, of a picture and of a text
SCREENSHOT = 150_000  # bytes a step, with the vectors of a state and an action
ASSUMED = (
    f"Rows without stored episodes are assumed: {STEPS:.0%} of the steps allowed, {SECONDS:g} s a step, pages as long "
    f"as an observation's limit, {CANDIDATE} tokens a candidate. After a few episodes the same command goes by these."
)

CALL, COMPOSITE = 5.0, 120  # seconds of a call; tokens of a composite action
TREE = 5_000  # bytes a proposed action, with its page
ASSUMED_TREE = (
    f"Assumed, where no tree is stored: {STEPS:.0%} of the steps allowed in a rollout, each a draw, after K draws and "
    f"K - 1 rankings; {CALL:g} s and {COMPOSITE} tokens a call. After a few trees the same command goes by these."
)


class Use(NamedTuple):
    """Of one episode, on average."""

    usage: Sequence[Usage]  # by role; sums over `episodes`
    episodes: float
    seconds: float
    steps: float

    @property
    def usd(self) -> float:
        """The part whose price is known."""
        return sum(one.usd or 0.0 for one in self.usage) / self.episodes

    @property
    def priced(self) -> bool:
        return all(one.usd is not None for one in self.usage if one.tokens_in or one.tokens_out)

    @property
    def tokens(self) -> tuple[float, float]:
        """Read and written."""
        read, written = (sum(getattr(one, f"tokens_{way}") for one in self.usage) for way in ("in", "out"))
        return read / self.episodes, written / self.episodes


def measure_use(episodes: Sequence[Episode], seconds: float) -> Use:
    """By one stored episode or more, of `seconds` on average."""
    judging = (used for one in episodes if one.verdict.judge for used in one.verdict.usage)
    usage = merge_usage([*(used for one in episodes for used in one.usage), *judging])
    return Use(usage, len(episodes), seconds, sum(len(one.steps) for one in episodes) / len(episodes))


def assume_use(
    settings: BestOfQSettings, kind: AgentKind, limit: int, *, judged: bool, n: int | None = None
) -> Use | None:
    """None where a model in this process proposes, whose speed nobody knows. `n` None: as the settings say."""
    chat, suite, steps = settings.endpoint_of("chat"), settings.suite, max(1, round(limit * STEPS))
    if chat is None:
        return None
    if kind == "mcts":  # a tree before each step
        tree = _tree(settings, chat, settings.agent_q.search, limit)
        return tree._replace(episodes=1 / steps, seconds=steps * tree.seconds, steps=steps)
    n = 1 if kind == "prompting" else n or settings.n_candidates
    single = AGENTS[kind].log_probs or AGENTS[kind].votes or settings.model.dialect == "composite"
    calls = steps * (min(n, 2) if single else 1)  # a candidate each reply: the greedy one, then the others together
    seen = PROMPT + (suite.browser.text_limit // CHARACTERS if suite.in_browser else 1000)

    def pictures(config: ChatConfig, number: int) -> int:
        wide, high = config.limits.size(suite.browser.width, suite.browser.height)
        return number * wide * high // PIXELS if suite.screenshots and config.base_url != HERE else 0

    def of(config: ChatConfig, read: int, written: int, calls: int) -> tuple[int, int, int, float | None]:
        return calls * read, calls * written, calls, config.price().usd(calls * read, calls * written)

    proposed = of(chat, seen + pictures(chat, settings.chat_screenshots), steps * n * CANDIDATE // calls, calls)
    parts = [("proposer", proposed)]
    if settings.localizer not in ("none", "page"):
        finder, sees = settings.endpoint_of("localizer_chat") or chat, settings.localizer.endswith("vision")
        parts.append(("localizer", of(finder, 150 + pictures(finder, 1) if sees else seen, 20, steps)))
    if kind == "picker":
        picker = settings.endpoint_of("picker_chat") or chat
        parts.append(("critic", of(picker, seen + n * CANDIDATE + pictures(picker, 1), CANDIDATE, steps)))
    if kind == "verifier":
        read = seen + CANDIDATE + pictures(chat, settings.chat_screenshots)
        parts.append(("critic", of(chat, read, CANDIDATE, steps * n)))
    if reads_q(settings, kind):
        area = suite.browser.width * suite.browser.height if suite.screenshots else 0
        words = seen if settings.model.embed.state == "page" else PROMPT
        read = steps * (words + min(settings.model.embed.pixels, area) // PIXELS + n * CANDIDATE)
        price = price_of(settings.model.embedder or "")
        parts.append(("embedder", (read, 0, steps, price.usd(read, 0))))
    if judged and (judge := settings.endpoint_of("judge")):
        shown = min(settings.judge_sees, steps)
        parts.append(("judge", of(judge, PROMPT + pictures(judge, shown), CANDIDATE, 1)))
    usage = [
        Usage.model_validate({"role": role, "tokens_in": a, "tokens_out": b, "calls": calls, "usd": usd})
        for role, (a, b, calls, usd) in parts
    ]
    return Use(usage, 1, steps * SECONDS, steps)


def measured_trees(trees: Sequence[SearchTree], rollouts: int) -> Use | None:
    """Of a tree of so many rollouts, by stored ones; None without any rollout."""
    done = sum(tree.visits[0] for tree in trees) / rollouts
    usage = merge_usage([used for tree in trees for used in tree.usage])
    return Use(usage, done, sum(used.seconds for used in usage) / done, 0) if done else None


def assumed_tree(settings: BestOfQSettings, limit: int) -> Use | None:
    """Of a tree, with `limit` steps an episode; None where a model in this process proposes."""
    chat = settings.endpoint_of("chat")
    return None if chat is None else _tree(settings, chat, settings.agent_q.search, limit)


def _tree(settings: BestOfQSettings, chat: ChatConfig, chosen: SearchConfig, limit: int) -> Use:
    seen = PROMPT + 1000
    drawn = chosen.iterations * (chosen.candidates + round(min(limit, chosen.depth) * STEPS))
    ranked = chosen.iterations * (chosen.candidates - 1) if settings.agent_q.feedback == "model" else 0

    def of(role: Role, calls: int, written: int) -> Usage:
        tokens = {"tokens_in": calls * seen, "tokens_out": calls * written}
        return Usage(role=role, calls=calls, usd=chat.price().usd(*tokens.values()), **tokens)

    return Use([of("proposer", drawn, COMPOSITE), of("critic", ranked, 10)], 1, (drawn + ranked) * CALL, 0)
