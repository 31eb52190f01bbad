"""Floor 3b: from settings to models, agents and environments."""
