"""Floor 5: an OpenAI-compatible endpoint before another one, for agents that are not ours."""
