"""Floor 4: the papers, top to bottom."""
