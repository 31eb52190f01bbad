"""What is embedded of a state, an action and a task (Best-of-Q, A.3)."""

from dataclasses import dataclass

from bestofq.agents.prompting import propose_prompt, review_prompt, state_text
from bestofq.core.decision import Candidate, State
from bestofq.core.embedding import Context, EmbedItem
from bestofq.core.errors import DataError
from bestofq.core.observation import Task

REVIEW_TOKENS = 48  # of a review, at most


@dataclass(frozen=True)
class EmbeddingTexts:
    """Context `alone`: each text by itself, as in the paper. `review`: the state as the prompt for the next action, the
    action as the frozen model's own review of it.

    `matches`: how the tokens of the action, and of the state, match those of the goal (`models.embed`). A state that is
    embedded alone then leaves its goal out. `pictures`: the state with the page's screenshot, for an embedder that
    sees. `reasoning`: an action that is embedded alone has its thought (Best-of-Q, 3.1). Without the `page` the state
    is its task and history."""

    context: Context = "alone"
    matches: bool = False
    pictures: bool = False
    reasoning: bool = False
    page: bool = True

    def state(self, state: State) -> EmbedItem:
        """DataError if a screenshot is needed and there is none."""
        if not self.page:
            blank = state.observation.model_copy(update={"text": ""})
            state = state.model_copy(update={"observation": blank})
        text, matched = propose_prompt(state) if self.context == "review" else state_text(state), None
        if self.matches:
            words = state_text(state.model_copy(update={"task": state.task.model_copy(update={"goal": ""})}))
            text, matched = text if self.context == "review" else words, (words, state.task.goal)
        if not self.pictures:
            return EmbedItem(text=text, matched=matched)
        shot = state.observation.screenshot
        if shot is None:
            raise DataError(
                f"step {len(state.decisions)} of task {state.task.id} has no screenshot to embed: take "
                "them (--set suite.screenshots=true, in a browser), or embed texts alone (--set model.embed.pixels=0)"
            )
        return EmbedItem(text=text, screenshots=(shot,), matched=matched)

    def action(self, state: State, candidate: Candidate) -> EmbedItem:
        matched = (candidate.label, state.task.goal) if self.matches else None  # what its mark names, not the mark
        if self.context == "review":
            return EmbedItem(text=review_prompt(state, candidate), answer=REVIEW_TOKENS, matched=matched)
        words = f"{candidate.label}\n{candidate.thought}" if self.reasoning else candidate.label
        return EmbedItem(text=words, matched=matched)

    def task(self, task: Task) -> EmbedItem:
        return EmbedItem(text=task.goal)
