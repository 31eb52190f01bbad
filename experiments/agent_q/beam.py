"""The agent beam: beam search over one action (Agent Q, 4.1), by transformers' own `generate`."""

from dataclasses import dataclass

import torch

from bestofq.agents.proposers import SamplingProposer
from bestofq.config.agents import AGENTS, AgentConfig, dialect_of
from bestofq.config.models import Models
from bestofq.core.language import Generation, Reply, Request
from bestofq.core.usage import Usage
from bestofq.models.local import LocalModel


@dataclass(frozen=True)
class BeamModel:
    """`LanguageModel` whose only reply is the likeliest that a search of width 4 finds."""

    model: LocalModel
    name: str

    @torch.inference_mode()
    async def generate(self, request: Request) -> Generation:
        local, prompt = self.model, self.model.encode(*request.messages)
        limits = {"num_beams": 4, "do_sample": False, "length_penalty": 0.0, "max_new_tokens": request.max_tokens}
        ids = local.model.generate(torch.tensor([prompt], device=local.device), **limits)[0, len(prompt) :]
        reply = Reply(local.tokenizer.decode(ids, skip_special_tokens=True), ids=tuple(ids.tolist()))
        return Generation((reply,), Usage(role=request.role, tokens_in=len(prompt), tokens_out=len(ids), calls=1))


def propose_by_beam(models: Models) -> SamplingProposer:
    model, dialect = BeamModel(models.local, models.local.name), dialect_of(models.settings)
    return SamplingProposer(model, max_new_tokens=models.settings.model.most_tokens, dialect=dialect)


AGENTS["beam"] = AgentConfig(single=True, propose=propose_by_beam)
