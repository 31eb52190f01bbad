"""What is embedded of a state, an action and a task (Best-of-Q, A.3)."""

from dataclasses import dataclass

from bestofq.agents.prompting import candidate_text, propose_prompt, review_prompt, state_text, task_text
from bestofq.core.actions import action_text
from bestofq.core.decision import Candidate, State
from bestofq.core.embedding import Context, EmbedItem
from bestofq.core.observation import Task

REVIEW_TOKENS = 48  # of a review, at most


@dataclass(frozen=True)
class EmbeddingTexts:
    """alone: each text by itself, as in the paper. state: the action as the reply that follows its state's prompt.
    review: the state as the prompt for the next action, the action as the frozen model's own review of it (as an AI
    critic writes it, but read by Q, not believed)."""

    context: Context = "alone"

    def state(self, state: State) -> EmbedItem:
        return EmbedItem(text=propose_prompt(state) if self.context == "review" else state_text(state))

    def action(self, state: State, candidate: Candidate) -> EmbedItem:
        match self.context:
            case "alone":
                return EmbedItem(text=candidate_text(candidate))
            case "state":
                reply = candidate.reply or f" {candidate.thought}\n{action_text(candidate.action)}"
                return EmbedItem(text=reply, context=propose_prompt(state))
            case "review":
                return EmbedItem(text=review_prompt(state, candidate), answer=REVIEW_TOKENS)

    def task(self, task: Task) -> EmbedItem:
        return EmbedItem(text=task_text(task))
