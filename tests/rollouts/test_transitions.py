import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from line_world import LineEnv, line_agent, line_task

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.selectors import GreedySelector
from bestofq.core.actions import Action
from bestofq.core.decision import Candidate, Episode, Outcome, Provenance, State, StepResult, Verdict
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.observation import Observation, Screenshot, Task
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.rollouts.transitions import tabulate
from bestofq.store.store import Store


class Plain:
    """Texts of the line world."""

    def state(self, state: State) -> EmbedItem:
        return EmbedItem(text=f"{state.observation.title} after {len(state.decisions)}")

    def action(self, state: State, candidate: Candidate) -> EmbedItem:
        return EmbedItem(text=candidate.label)

    def task(self, task: Task) -> EmbedItem:
        return EmbedItem(text=task.goal)


async def play(folder: Path, *replies: str | list[str], limit: int = 30) -> Episode:
    with Store.open(folder) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        agent = line_agent(
            selector=GreedySelector(), replies=[[one] if isinstance(one, str) else one for one in replies]
        )
        done = await record_episode(
            agent, LineEnv(), line_task("t", 2), store=store, run="r", options=EpisodeOptions(step_limit=limit)
        )
        return store.episode(done.id)


def rows(episodes: Sequence[Episode]) -> list[tuple[str, str, str | None, float]]:
    """Of each step the texts of state and action, that of the next state (None: it is terminal), and the reward."""
    items, found = tabulate(episodes, Plain())
    texts = [item.text for item in items]
    columns = (found.state, found.action, found.next_state, found.terminal, found.reward)
    each = zip(*(column.tolist() for column in columns), strict=True)
    return [(texts[s], texts[a], None if ended else texts[n], reward) for s, a, n, ended, reward in each]


async def test_the_reward_is_at_the_end_only(tmp_path: Path) -> None:
    episode = await play(tmp_path, "click [2]", "click [1]", "click [2]", "click [2]")
    assert rows([episode]) == [
        ("Page 0 after 0", "click link one on", "Page 1 after 1", 0.0),
        ("Page 1 after 1", "click link one back", "Page 0 after 2", 0.0),
        ("Page 0 after 2", "click link one on", "Page 1 after 3", 0.0),
        ("Page 1 after 3", "click link one on", None, 1.0),
    ]


async def test_running_out_of_steps_is_terminal_with_reward_0(tmp_path: Path) -> None:
    episode = await play(tmp_path, "click [1]", "click [2]", limit=2)
    assert [row[2:] for row in rows([episode])] == [("Page 0 after 1", 0.0), (None, 0.0)]


@pytest.mark.parametrize(("outcome", "reward"), [("failure", 0.5), ("blocked", 0.0), ("impossible", 0.0)])
async def test_an_end_without_success_teaches_as_a_failure(outcome: Outcome, reward: float, tmp_path: Path) -> None:
    episode = await play(tmp_path, "click [2]", "click [2]")
    ended = episode.model_copy(update={"verdict": Verdict(reward=reward, outcome=outcome)})
    assert [row[-1] for row in rows([ended])] == [0.0, 0.0]


async def test_cut_and_empty_episodes_are_left_out(tmp_path: Path) -> None:
    episode = await play(tmp_path, "click [2]", "click [2]")
    undecided: tuple[Outcome, ...] = ("infra_error", "unjudged", "unparseable")
    cut = [episode.model_copy(update={"verdict": Verdict(reward=0.0, outcome=outcome)}) for outcome in undecided]
    empty = episode.model_copy(update={"steps": ()})
    with pytest.raises(DataError, match="no finished episode"):
        tabulate([*cut, empty], Plain())


async def test_stored_pictures_are_embedded(tmp_path: Path) -> None:
    """An episode that was read back has its screenshots by their hash; their bytes come from the store, once each."""

    class Sizes(CachedEmbedder):
        def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
            return [Vector(np.array([sum(len(s.data) for s in item.screenshots)], np.float32), 1) for item in items]

    class Photographed(LineEnv):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            return self._with_picture(await super().reset(task, seed=seed))

        async def step(self, action: Action) -> StepResult:
            result = await super().step(action)
            return result.model_copy(update={"observation": self._with_picture(result.observation)})

        def _with_picture(self, page: Observation) -> Observation:
            data = b"x" * (100 + len(page.title) + int(page.title[-1]))
            shot = Screenshot(
                sha256=hashlib.sha256(data).hexdigest(), media_type="image/jpeg", width=9, height=9, data=data
            )
            return page.model_copy(update={"screenshot": shot})

    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        agent = line_agent(selector=GreedySelector(), replies=[["click [2]"], ["click [2]"]])
        await record_episode(agent, Photographed(), line_task("t", 2), store=store, run="r")
        items, _ = tabulate(store.episodes(run="r"), EmbeddingTexts(pictures=True))
        assert [[len(shot.data) for shot in item.screenshots] for item in items] == [[0], [0], [], []]
        embedder = Sizes(EmbedSpec(model="sizes", revision="1", dim=1), batch=8)
        vectors = embedder.embed_all(items, store.vectors(embedder.spec), pictures=store.screenshots.load)
        assert vectors[:, 0].tolist() == [106.0, 107.0, 0.0, 0.0]
        again = embedder.embed_all(items, store.vectors(embedder.spec))  # nothing is left to read
        np.testing.assert_array_equal(again, vectors)


async def test_each_distinct_item_has_one_row(tmp_path: Path) -> None:
    episode = await play(tmp_path, "click [2]", "click [2]")
    items, transitions = tabulate([episode, episode], Plain())
    assert [item.text for item in items] == ["Page 0 after 0", "Page 1 after 1", "click link one on", "reach page 2"]
    assert len(transitions) == 4
    assert transitions.state.tolist() == [0, 1, 0, 1]
    assert transitions.next_state.tolist() == [1, 1, 1, 1]
    assert transitions.action.tolist() == [2] * 4
    assert transitions.task.tolist() == [3] * 4
    assert transitions.reward.tolist() == [0, 1, 0, 1]
    assert transitions.terminal.tolist() == [False, True, False, True]


async def test_all_candidates_are_given_to_who_asks(tmp_path: Path) -> None:
    episode = await play(tmp_path, ["click [2]", "click [1]"], "click [2]", limit=2)
    assert tabulate([episode], Plain())[1].candidates is None
    items, rows = tabulate([episode], Plain(), candidates=True)
    (back,) = (i for i, item in enumerate(items) if item.text == "click link one back")
    (on,) = (i for i, item in enumerate(items) if item.text == "click link one on")
    assert rows.candidates.tolist() == [[on, back], [on, -1]]
