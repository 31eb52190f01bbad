"""Floor 1: networks and losses: Q and V by IQL, language models by supervised training."""
