"""Trajectories of other tools, read as episodes: a file a format, a registry, and what brings them into a store."""
