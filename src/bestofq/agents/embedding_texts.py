"""What is embedded of a state, an action and a task (Best-of-Q, A.3)."""

from dataclasses import dataclass

from bestofq.agents.prompting import candidate_text, propose_prompt, state_text, task_text
from bestofq.core.actions import action_text
from bestofq.core.decision import Candidate, State
from bestofq.core.embedding import EmbedItem
from bestofq.core.observation import Task


@dataclass(frozen=True)
class EmbeddingTexts:
    """Each text alone, as in the paper; or, `in_context`, the action as the reply that follows its state's prompt."""

    in_context: bool = False

    def state(self, state: State) -> EmbedItem:
        return EmbedItem(text=state_text(state))

    def action(self, state: State, candidate: Candidate) -> EmbedItem:
        if not self.in_context:
            return EmbedItem(text=candidate_text(candidate))
        reply = candidate.reply or f" {candidate.thought}\n{action_text(candidate.action)}"
        return EmbedItem(text=reply, context=propose_prompt(state))

    def task(self, task: Task) -> EmbedItem:
        return EmbedItem(text=task_text(task))
