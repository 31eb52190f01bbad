"""Floor 2: the worlds an agent acts in."""
