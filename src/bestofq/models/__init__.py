"""Floor 1: language models, local and remote, and what they embed."""
