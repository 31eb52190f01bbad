"""Searches of small trees, worked by hand."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from branch_world import TASK, BranchEnv, RestoringEnv, both_doors, run_search, search_of

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Episode, Outcome, Proposal, State
from bestofq.core.errors import BrowserError, ConfigError, InfraError, ReplyError
from bestofq.core.observation import Observation
from bestofq.core.seeds import step_seed
from bestofq.core.tree import SearchTree
from bestofq.search.mcts import Search, state_after
from bestofq.search.pairs import blend_values, node_pairs, rollouts
from bestofq.search.tree import Move, MutableTree
from bestofq.testing.scripted import ScriptedJudge, ScriptedProposer


async def test_a_golden_tree_of_four_rollouts() -> None:
    """Two doors, two deep, only "21" is good; feedback and the policy prefer the left door.

    1: root expanded, left tried (rank 0), the rollout takes left again: "11", R = 0. 2: log N = 0 and all Q are 0, so
    the less visited: right; the rollout goes on left: "21", R = 1. 3: UCB1 with c = 0.5 is 0 + 0.5 · √(ln 2 / 2) = 0.29
    against 1 + 0.29: right, which is expanded; its untried door: "22", R = 0. 4: Q = 0, 1/2 and N = 1, 2: 0 + 0.5 ·
    √(ln 3 / 2) = 0.37 against 1/2 + 0.5 · √(ln 3 / 3) = 0.80: right again, there "21" (1 against 0): it ended there.
    """
    search, steps, outcomes = await run_search({"21": 1.0}, depth=2, iterations=4)
    tree = search.tree
    assert outcomes == [0.0, 1.0, 0.0, 1.0]
    assert steps == ["1", "11", "2", "21", "22"]  # nothing is carried out twice
    ways = ["".join(str(tree.candidate[n].action.mark) for n in tree.path(i)[1:]) for i in range(len(tree.parent))]
    assert ways == ["", "1", "2", "11", "21", "22"]
    assert tree.visits == [4, 1, 3, 1, 2, 1]
    assert tree.value == pytest.approx([1 / 2, 0, 2 / 3, 0, 1, 0])
    assert tree.prior == [None, 1.0, 0.0, None, 1.0, 0.0]
    assert tree.ending == ["open", "open", "open", "ended", "ended", "ended"]


async def test_pairs_of_the_golden_tree() -> None:
    search, _, _ = await run_search({"21": 1.0}, depth=2, iterations=4)
    tree = search.tree.to_tree(search.usage)
    assert [blend_values(tree, n, 0.5) for n in (1, 2, 4, 5)] == pytest.approx([0.5, 1 / 3, 1.0, 0.0])
    pairs = list(node_pairs(tree, alpha=0.5, threshold=0.1))
    assert [(p.node, p.chosen, p.rejected) for p in pairs] == [(0, 1, 2), (2, 4, 5)]
    assert [p.margin for p in pairs] == pytest.approx([1 / 6, 1.0])
    outcome_only = list(node_pairs(tree, alpha=1.0, threshold=0.1))
    assert [(p.node, p.chosen, p.rejected) for p in outcome_only] == [(0, 2, 1), (2, 4, 5)]
    assert [(p.chosen, p.rejected) for p in node_pairs(tree, alpha=0.5, threshold=0.5)] == [(4, 5)]
    assert list(rollouts(tree)) == [([1, 3], 0.0), ([2, 4], 1.0), ([2, 5], 0.0)]


async def test_visits_gather_on_the_best_of_sixteen_ways() -> None:
    search, steps, _ = await run_search({"2122": 1.0}, depth=4, iterations=300, exploration=0.7)
    tree = search.tree
    node, way = 0, ""
    while tree.children[node]:
        node = max(tree.children[node], key=lambda n: tree.visits[n])
        way = tree.seen[node].url.removeprefix("branch://")
    assert way == "2122"
    assert tree.visits[node] > 150
    assert len(steps) == len(set(steps)) <= 30  # each page of the 30 at most once


@pytest.mark.parametrize("restoring", [True, False])
async def test_replaying_finds_the_same_tree_as_restoring(restoring: bool) -> None:
    search, steps, _ = await run_search({"212": 1.0}, depth=3, iterations=12, restoring=restoring)
    other, _, _ = await run_search({"212": 1.0}, depth=3, iterations=12)
    assert search.tree.to_tree() == other.tree.to_tree()
    assert (len(steps) == len(set(steps))) == restoring


async def test_a_page_that_is_not_found_again_closes_its_branch() -> None:
    class Forgetful(BranchEnv):
        """A door that leads elsewhere the second time."""

        async def step(self, action):  # type: ignore[no-untyped-def]
            result = await super().step(action)
            if steps.count("2") > 1 and self.way == "2":
                moved = result.observation.model_copy(update={"url": "branch://elsewhere"})
                return result.model_copy(update={"observation": moved})
            return result

    steps: list[str] = []
    rewards = {"21": 1.0, "12": 1.0}
    make = partial(Forgetful, rewards, depth=2, steps=steps)
    search, _, _ = await run_search(rewards, depth=2, iterations=8, make=make)
    assert search.tree.visits[0] == 8  # what came to nothing does not count
    assert "pruned" in search.tree.ending
    chosen = {search.tree.seen[p.chosen].url for p in node_pairs(search.tree.to_tree(), alpha=1, threshold=0.1)}
    assert "branch://22" not in chosen


async def test_an_irreversible_action_is_never_carried_out_but_valued_by_feedback() -> None:
    def irreversible(observation, action):  # type: ignore[no-untyped-def]
        return action.mark == 2

    search, steps, _ = await run_search({"22": 1.0}, depth=2, iterations=10, irreversible=irreversible)
    assert steps
    assert not any("2" in way for way in steps)
    unsafe = [i for i, ending in enumerate(search.tree.ending) if ending == "unsafe"]
    assert unsafe
    assert all(search.tree.seen[i] is None for i in unsafe)
    _, steps, _ = await run_search({"22": 1.0}, depth=2, iterations=10)
    assert any("2" in way for way in steps)


def left_door_of(url: str) -> Callable[[Observation, Any], bool]:
    """Its left door alone is irreversible."""
    return lambda observation, action: observation.url == url and action.mark == 1


async def test_the_policys_own_irreversible_choice_ends_a_rollout_with_what_feedback_says() -> None:
    unsafe = left_door_of("branch://1")
    _, steps, outcomes = await run_search({"11": 1.0}, depth=3, iterations=1, irreversible=unsafe)
    assert steps == ["1"]
    assert outcomes == [1.0]  # the first in rank of the two that were then proposed


async def test_no_feedback_no_prior_and_a_policy_without_an_action_fails() -> None:
    search, _, outcomes = await run_search(
        {"11": 1.0}, depth=2, iterations=2, ranks=None, doors=lambda state, n: [] if state.decisions else ["click [1]"]
    )
    assert search.tree.prior == [None, None]
    assert outcomes == [0.0, 0.0]
    assert search.tree.ending == ["open", "ended"]


async def test_a_success_is_enough() -> None:
    search, _, _ = await run_search({"1111": 1.0}, depth=4, iterations=50, stop_at_success=True)
    assert search.tree.visits[0] == 1
    await search.run()  # known from before, too
    assert search.tree.visits[0] == 1
    search.start = 1  # below the first action, as an agent that goes on
    await search.run()
    assert search.tree.visits[0] == 1
    search.tree.reward[-1] = 0.9
    await search.run(2)
    assert search.tree.visits[1] > 1


async def test_three_cut_rollouts_in_a_row_are_the_machinerys_fault() -> None:
    class Broken(RestoringEnv):
        async def step(self, action):  # type: ignore[no-untyped-def]
            raise InfraError("the browser is gone")

    search, _, _ = await search_of({}, depth=2, iterations=10, make=lambda: Broken({}, depth=2, steps=[]))
    with pytest.raises(InfraError, match="browser is gone"):
        await search.run()
    assert search.tree.visits[0] == 0


async def test_a_search_goes_on_in_another_environment_where_one_has_crashed() -> None:
    made: list[BranchEnv] = []
    steps: list[str] = []

    class Crashing(RestoringEnv):
        """The first is gone after three actions."""

        async def step(self, action):  # type: ignore[no-untyped-def]
            if self is made[0] and len(steps) >= 3:
                raise BrowserError("the page crashed")
            return await super().step(action)

        async def close(self) -> None:
            await super().close()
            raise BrowserError("the page crashed")

    def make() -> BranchEnv:
        made.append(Crashing({}, depth=2, steps=steps))
        return made[-1]

    search, _, _ = await run_search({}, depth=2, iterations=10, make=make)
    assert search.tree.visits[0] == 10
    assert [env.way == "closed" for env in made] == [True, False]


async def test_an_unsafe_action_is_no_success_that_is_enough() -> None:
    settings = {"exploration": 3.0, "stop_at_success": True, "irreversible": left_door_of("branch://")}
    search, _, outcomes = await run_search({"21": 1.0}, depth=2, iterations=20, **settings)
    assert outcomes[0] == 1.0  # what feedback says of the unsafe action
    assert search.tree.is_solved(0)
    assert search.tree.visits[0] < 20


def of_nobodys_world() -> BranchEnv:
    class Mute(RestoringEnv):
        """Cannot tell what an episode is worth, as an open site."""

        async def step(self, action):  # type: ignore[no-untyped-def]
            return (await super().step(action)).model_copy(update={"reward": None})

    return Mute({}, depth=2, steps=[])


async def test_a_judge_says_what_a_rollout_is_worth_where_the_environment_cannot() -> None:
    judged: list[Episode] = []

    def outcome(episode: Episode) -> Outcome:
        judged.append(episode)
        return "success" if episode.final and episode.final.url == "branch://21" else "failure"

    search, _, _ = await run_search({}, depth=2, iterations=6, make=of_nobodys_world, judge=ScriptedJudge(outcome))
    ends = {seen.url: reward for seen, reward in zip(search.tree.seen, search.tree.reward, strict=True) if seen}
    assert ends["branch://21"] == 1.0
    assert sum(ends.values()) == 1.0
    assert search.tree.value[0] > 0
    assert sum(usage.calls for usage in search.usage if usage.role == "judge") == len(judged)
    assert [step.observation.url for step in judged[0].steps] == ["branch://", "branch://1"]
    assert [step.decision.candidate.action.mark for step in judged[0].steps] == [1, 1]  # type: ignore[union-attr]


async def test_a_judge_reads_what_was_done_before_the_search_too() -> None:
    judged: list[Episode] = []

    def outcome(episode: Episode) -> Outcome:
        judged.append(episode)
        return "failure"

    world = of_nobodys_world()
    hall = await world.reset(TASK, seed=0)
    left = (await ScriptedProposer(both_doors).propose(State(task=TASK, observation=hall), 1)).candidates[0]
    root = State(task=TASK, observation=(await world.step(left.action)).observation)
    begun = {"state": state_after(root, [left], root.observation), "before": [Move(hall, left.action)]}
    await run_search({}, depth=2, iterations=1, make=of_nobodys_world, judge=ScriptedJudge(outcome), **begun)
    assert [step.decision.candidate.action.mark for step in judged[0].steps] == [1, 1]  # type: ignore[union-attr]
    assert [step.observation.url for step in judged[0].steps] == ["branch://", "branch://1"]


async def test_what_nobody_can_tell_is_one_sentence_and_what_a_judge_cannot_is_no_outcome() -> None:
    search, _, _ = await search_of({}, depth=2, iterations=6, make=of_nobodys_world)
    with pytest.raises(ConfigError, match=r"episode of branches is worth: a search there needs a judge .*judge\.model"):
        await search.run()
    blind = ScriptedJudge(lambda episode: "unparseable")
    search, _, _ = await search_of({}, depth=2, iterations=6, make=of_nobodys_world, judge=blind)
    with pytest.raises(InfraError, match="the judge could not tell"):
        await search.run()
    assert search.tree.visits[0] == 0


async def test_an_ending_that_the_judge_cannot_tell_is_pruned_and_met_once() -> None:
    asked: list[str] = []

    def outcome(episode: Episode) -> Outcome:
        asked.append(episode.final.url)
        return "success" if asked[-1] == "branch://22" else "unparseable"

    world: dict[str, Any] = {"make": of_nobodys_world, "judge": ScriptedJudge(outcome)}
    search, _, _ = await run_search({}, depth=2, iterations=6, ranks=lambda *_: (0.0, 1.0), exploration=5.0, **world)
    assert search.tree.visits[0] == 6
    resumed = MutableTree.from_tree(search.tree.to_tree())
    search, envs, _ = await search_of({}, depth=2, iterations=6, **world)
    await Search(resumed, search.state, envs, proposer=search.proposer, ranker=None, judge=search.judge, depth=2).run()
    assert resumed.visits[0] == 12
    assert sorted(asked) == ["branch://11", "branch://12", "branch://21", "branch://22"]  # each once
    assert resumed.ending.count("ended") == 1


@pytest.mark.parametrize("silent_when", [1, 2], ids=["in a rollout", "in an expansion"])
async def test_a_proposal_without_a_valid_action_is_paid_for(silent_when: int) -> None:
    asked: list[int] = []

    def silent(state: State, n: int) -> Sequence[str]:
        asked.append(n)
        return ["fly"] if n == silent_when else both_doors(state, n)

    search, _, _ = await run_search({}, depth=3, iterations=3, doors=silent)
    assert silent_when in asked
    assert sum(used.calls for used in search.usage if used.role == "proposer") == len(asked)


async def test_nodes_draw_from_their_searchs_seed_and_depth() -> None:
    """So that an agent that searches is offered on its next page what its search has found there."""
    search, _, _ = await search_of({}, depth=2, iterations=3)
    seen: dict[int, set[int]] = {}
    inner = search.proposer

    class Noting:
        async def propose(self, state: State, n: int) -> Proposal:
            seen.setdefault(len(state.decisions), set()).add(state.step_seed)
            return await inner.propose(state, n)

    search.proposer, search.state = Noting(), search.state.model_copy(update={"seed": 11})
    await search.run()
    assert seen == {depth: {step_seed(11, depth)} for depth in range(2)}


class Coin(ScriptedProposer):
    """Prefers the left door; drawn from, it takes either, by the seed. `asked` keeps where, and by which seed."""

    async def sample(self, state: State) -> Proposal:
        asked.append((state.observation.url, state.step_seed))
        door = "click [2]" if state.step_seed % 2 else "click [1]"
        return await ScriptedProposer([[door]] * 9).propose(state, 1)


asked: list[tuple[str, int]] = []


async def drawn(rollouts: int, *, tree: SearchTree | None = None, **settings: Any) -> Search:
    """A search nine doors deep with a policy that is drawn from; `tree`: to continue with."""
    settings = {"depth": 9, "ranks": None, "rollout": "sample", "proposer": Coin(both_doors), **settings}
    search, _, _ = await search_of({}, **settings)
    if tree is not None:
        search.tree = MutableTree.from_tree(tree)
    await search.run(rollouts)
    return search


async def test_rollouts_are_drawn_from_the_policy_anew_each_time() -> None:
    asked.clear()
    search = await drawn(40)
    assert len(set(asked)) == len(asked) > 40
    went = Counter(seed % 2 for _, seed in asked)
    assert min(went.values()) > len(asked) / 4
    assert sum(ending == "ended" for ending in search.tree.ending) > 20  # where 40 rollouts of it ended


async def test_a_search_that_draws_goes_on_as_if_it_had_not_stopped() -> None:
    half = (await drawn(5)).tree.to_tree()
    assert (await drawn(7, tree=half)).tree.to_tree() == (await drawn(12)).tree.to_tree()


async def test_a_stand_in_for_replies_that_cannot_be_read_is_no_action_of_the_tree() -> None:
    class Unread(Coin):
        async def propose(self, state: State, n: int) -> Proposal:
            return (await super().propose(state, n)).model_copy(update={"failed": True})

    search, _, _ = await search_of({"11": 1.0}, depth=2, ranks=None, proposer=Unread(both_doors))
    await search.run(3)
    assert search.tree.children == [[]]


async def test_a_draw_that_is_no_action_fails_the_rollout_and_not_the_page() -> None:
    class Never(Coin):
        async def sample(self, state: State) -> Proposal:
            raise ReplyError("no action")

    _, _, outcomes = await run_search(
        {"11": 1.0}, depth=2, iterations=3, rollout="sample", ranks=None, proposer=Never(both_doors)
    )
    assert outcomes == [0.0, 0.0, 1.0]  # both doors are tried; behind the first the doors are still proposed


PAGE = Observation(url="u", title="t", text="x", elements=())


def grown(children: int = 3) -> MutableTree:
    tree = MutableTree(TASK, PAGE)
    for mark in range(1, children + 1):
        tree.child(0, Candidate(action=Click(mark=mark), label=f"click {mark}"))
    return tree


def test_an_action_is_one_node_however_often_it_is_proposed() -> None:
    tree = grown(2)
    assert tree.child(0, Candidate(action=Click(mark=1), label="the same", thought="for another reason")) == 1
    assert len(tree.parent) == 3


def test_backup_is_a_running_mean_along_the_path() -> None:
    tree = grown()
    below = tree.child(2, Candidate(action=Click(mark=9), label="click 9"))
    tree.backup([0, 2, below], 1.0)
    tree.backup([0, 2], 0.0)
    tree.backup([0, 1], 0.5)
    assert tree.visits == [3, 1, 2, 0, 1]
    assert tree.value == pytest.approx([0.5, 0.5, 0.5, 0.0, 1.0])


def test_ucb1_by_hand() -> None:
    tree = grown()
    tree.backup([0, 1], 1.0)
    tree.backup([0, 1], 0.0)
    tree.backup([0, 2], 0.0)
    # N(h) = 3: Q = 1/2, 0, 0 and N = 2, 1, 0
    expected = [0.5 + math.sqrt(math.log(3) / 3), math.sqrt(math.log(3) / 2), math.sqrt(math.log(3))]
    assert tree.ucb1(0, 1.0) == pytest.approx(expected)
    assert tree.argmax_ucb1(0, 1.0) == 1  # 1.105 against 0.741 and 1.048
    assert tree.argmax_ucb1(0, 2.0) == 3  # 1.710 against 1.482 and 2.096


def test_before_any_visit_feedback_decides_and_without_it_the_order_of_proposal() -> None:
    tree = grown()
    assert tree.argmax_ucb1(0, 1.0) == 1
    tree.rank(tree.children[0], [0.0, 1.0, 0.5])
    assert tree.argmax_ucb1(0, 1.0) == 2
    tree.ending[2] = "pruned"
    assert tree.argmax_ucb1(0, 1.0) == 3
    tree.ending[1] = tree.ending[3] = "pruned"
    assert tree.argmax_ucb1(0, 1.0) is tree.find_best_new_child(0) is None


def test_after_one_visit_that_brought_nothing_an_untried_one_comes_first() -> None:
    tree = grown(2)
    tree.rank(tree.children[0], [1.0, 0.0])
    tree.backup([0, 1], 0.0)  # log N(h) = 0: all UCB1 are 0
    assert tree.argmax_ucb1(0, 1.0) == 2


def test_a_tree_is_stored_and_comes_back() -> None:
    tree = grown()
    tree.rank(tree.children[0], [0.0, 1.0, 0.5])
    tree.seen[1] = PAGE.model_copy(update={"url": "elsewhere"})
    tree.backup([0, 1], 1.0)
    stored = tree.to_tree()
    assert stored.page == (0, 1, -1, -1)
    assert stored.path(3) == [0, 3]
    assert stored.children(0) == [1, 2, 3]
    again = MutableTree.from_tree(stored)
    assert again.to_tree() == stored
    assert again.argmax_ucb1(0, 1.0) == tree.argmax_ucb1(0, 1.0)
