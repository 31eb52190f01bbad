"""Q and V that attend to the tokens of state, action and goal, where the paper takes their mean (Best-of-Q, A.3).

A trial: the frozen model's states of each token, whitened, are read by two small layers in which learned queries, the
goal and the action attend to each other and to the page. IQL as in `learning/iql.py`, with AdamW at 0.001.

bestofq eval --agents own --set scorer=experiments.attention:AttentionScorer …   # the file, in BESTOFQ_ATTENTION
"""

import copy
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.config.models import Models
from bestofq.core.decision import Candidate, Episode, Scores, State
from bestofq.core.errors import ConfigError
from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig
from bestofq.learning.iql import expectile_loss, td_loss
from bestofq.models.batching import in_groups
from bestofq.models.decoding import pad_ids
from bestofq.models.embed import hidden_states
from bestofq.models.local import LocalModel
from bestofq.rollouts.progress import bar
from bestofq.rollouts.transitions import tabulate
from experiments.prior_inputs import prior_of, taken_priors

FILE = "BESTOFQ_ATTENTION"
AXES = 64  # kept of a token's state, and of its input embedding, each whitened
WIDTH, HEADS, QUERIES, LAYERS = 64, 4, 4, 2
MOST_TOKENS = 256
TEXTS = EmbeddingTexts(matches=True)  # the state without its goal, the action as its label
Half = NDArray[np.float16]


class Tokens(NamedTuple):
    """Padded token states [B, T, 2 * AXES], and where they are real [B, T]."""

    states: Tensor
    real: Tensor


class Reader:
    """The frozen model's last states and input embeddings of a text's tokens, each whitened to `AXES` numbers."""

    def __init__(self, model: LocalModel, maps: Sequence[tuple[Tensor, Tensor]] = ()) -> None:
        self.model, self.maps = model, list(maps)

    @torch.inference_mode()
    def read(self, texts: Sequence[str]) -> list[Half]:
        """[T, 2 * AXES] of each text."""
        start = self.model.start
        rows = [[*start, *(self.model.encode_plain(text) or [self.model.end])[:MOST_TOKENS]] for text in texts]
        ids, _ = pad_ids(rows, self.model.device)
        both = (
            hidden_states(self.model.model.base_model, -1, input_ids=ids),
            self.model.model.get_input_embeddings()(ids),
        )
        if not self.maps:  # of the first texts
            real = torch.cat([torch.arange(len(start), len(row)) + i * ids.shape[1] for i, row in enumerate(rows)])
            self.maps = [_whitening(states.flatten(0, 1)[real].double()) for states in both]
        found = torch.cat(
            [(part.float() - mean) @ axes for part, (mean, axes) in zip(both, self.maps, strict=True)], -1
        )
        return [one[len(start) : len(row)].half().numpy() for one, row in zip(found, rows, strict=True)]


def _whitening(states: Tensor) -> tuple[Tensor, Tensor]:
    """The mean [D] of token states [N, D], and their `AXES` widest axes, each scaled to variance 1 [D, AXES]."""
    mean = states.mean(0)
    variances, axes = torch.linalg.eigh(torch.cov((states - mean).T))
    return mean.float(), (axes[:, -AXES:] / variances[-AXES:].clamp(min=1e-6).sqrt()).float()


class AttentionValue(nn.Module):
    """The value of texts: state, goal and, of Q, action. `extra` numbers stand beside what the queries found."""

    def __init__(self, extra: int = 0, dropout: float = 0.1) -> None:
        super().__init__()
        self.project, self.kind = nn.Linear(2 * AXES, WIDTH), nn.Embedding(3, WIDTH)
        self.queries = nn.Parameter(torch.randn(QUERIES, WIDTH) / math.sqrt(WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.out = nn.Sequential(
            nn.LayerNorm(QUERIES * WIDTH + extra),
            nn.Linear(QUERIES * WIDTH + extra, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 1),
        )

    def forward(self, state: Tokens, *asked: Tokens, extra: Tensor | None = None) -> Tensor:
        """[B]: the queries, the goal and the action (`asked`) attend to each other and to the state."""
        page, *rest = (self.project(one.states.float()) + self.kind.weight[i] for i, one in enumerate((state, *asked)))
        batch = len(page)
        short = torch.cat([self.queries.expand(batch, -1, -1), *rest], 1)
        gone = ~torch.cat([torch.ones(batch, QUERIES, dtype=torch.bool), *(one.real for one in asked)], 1)
        for layer in self.layers:
            short = layer(short, page, tgt_key_padding_mask=gone, memory_key_padding_mask=~state.real)
        found = short[:, :QUERIES].flatten(1)
        value: Tensor = self.out(found if extra is None else torch.cat([found, extra], 1))
        return value.squeeze(-1)


class Learned(NamedTuple):
    """What `learn` gives and a file holds."""

    q: AttentionValue
    v: AttentionValue
    maps: list[tuple[Tensor, Tensor]]
    prior: bool


class Lesson(NamedTuple):
    """What is learned from: transitions, the token states of their items [U], the proposer's numbers [T, 2]."""

    rows: Transitions
    states: Sequence[Half]
    maps: list[tuple[Tensor, Tensor]]
    priors: Tensor


def lesson(models: Models, episodes: Sequence[Episode]) -> Lesson:
    """All texts of the episodes, each read once; the whitening is of the first 512 read."""
    table, reader = tabulate(episodes, TEXTS), Reader(models.local)
    drawn = np.random.default_rng(0).permutation(len(table.items))[:512].tolist()
    reader.read([table.items[index].text for index in drawn])
    texts = [item.text for item in table.items]
    states = [*in_groups(texts, reader.read, size=64, length=len)]
    return Lesson(table.rows, states, reader.maps, torch.from_numpy(taken_priors(episodes)))


def learn(taught: Lesson, config: IQLConfig, console: Console, *, prior: bool = False) -> Learned:
    """Q and V by IQL (Best-of-Q, Eqs. 3 and 4); `prior`: Q reads the proposer's log-probability and rank, too."""
    rows, states = taught.rows, taught.states
    reward, continues = torch.from_numpy(rows.reward), torch.from_numpy(~rows.terminal).float()
    torch.manual_seed(config.seed)
    q, v = AttentionValue(2 if prior else 0), AttentionValue()
    target = copy.deepcopy(q).requires_grad_(False).eval()
    adams = [torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=config.weight_decay) for net in (q, v)]
    batches = np.random.default_rng(config.seed)
    with bar(console) as shown:
        row = shown.add_task("training Q and V", total=config.steps)
        for step in range(config.steps):
            if step % config.target_update_every == 0:
                target.load_state_dict(q.state_dict())
            for adam in adams:
                adam.param_groups[0]["lr"] = 1e-3 * 0.5 * (1 + math.cos(math.pi * step / config.steps))
            drawn = batches.integers(len(rows), size=config.batch_size)
            here, goal, action, after = (
                packed([states[i] for i in part[drawn]])
                for part in (rows.state, rows.task, rows.action, rows.next_state)
            )
            extra = taught.priors[drawn] if prior else None
            with torch.no_grad():
                aim = target(here, goal, action, extra=extra)
            _descend(expectile_loss(aim - v(here, goal), config.expectile), v, adams[1], config)
            with torch.no_grad():
                ahead = v.eval()(after, goal)
                v.train()
            value = q(here, goal, action, extra=extra)
            _descend(td_loss(value, ahead, reward[drawn], continues[drawn], config.discount), q, adams[0], config)
            shown.update(row, completed=step + 1)
    return Learned(q.eval(), v.eval(), taught.maps, prior)


def _descend(loss: Tensor, network: nn.Module, adam: torch.optim.Optimizer, config: IQLConfig) -> None:
    adam.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(network.parameters(), config.clip_norm)
    adam.step()


def packed(rows: Sequence[Half]) -> Tokens:
    """The token states of texts [B, T, 2 * AXES], padded on the right."""
    lengths = torch.tensor([len(row) for row in rows])
    states = pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True)
    return Tokens(states, torch.arange(states.shape[1]) < lengths[:, None])


def save(learned: Learned, file: Path) -> None:
    parts = {"q": learned.q.state_dict(), "v": learned.v.state_dict(), "maps": learned.maps, "prior": learned.prior}
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(parts, file)


def load(file: Path) -> Learned:
    found = torch.load(file, weights_only=True)
    q, v = AttentionValue(2 if found["prior"] else 0), AttentionValue()
    q.load_state_dict(found["q"])
    v.load_state_dict(found["v"])
    return Learned(q.eval(), v.eval(), found["maps"], found["prior"])


class AttentionScorer:
    """`Scorer`: Q of each candidate [N] by attention."""

    def __init__(self, models: Models, learned: Learned | None = None) -> None:
        """ConfigError where the environment names no file and none is given."""
        if learned is None and not Path(os.environ.get(FILE, "")).is_file():
            raise ConfigError(f"{FILE} names no file: make one by `python -m experiments attention`")
        self._learned = learned or load(Path(os.environ[FILE]))
        self._reader = Reader(models.local, self._learned.maps)

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        items = (TEXTS.state(state), TEXTS.task(state.task), *(TEXTS.action(state, one) for one in candidates))
        here, goal, *actions = (self._reader.read([item.text])[0] for item in items)
        count, extra = len(candidates), None
        if self._learned.prior:
            extra = torch.tensor([prior_of(candidates, index) for index in range(count)])
        with torch.inference_mode():
            values = self._learned.q(packed([here] * count), packed([goal] * count), packed(actions), extra=extra)
            worth = self._learned.v(packed([here]), packed([goal]))
        return Scores(values=tuple(values.tolist()), state_value=float(worth))
