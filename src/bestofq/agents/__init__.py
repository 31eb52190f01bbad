"""Floor 2: the parts of an agent: proposers, scorers, selectors, localizers, judges, prompts."""
