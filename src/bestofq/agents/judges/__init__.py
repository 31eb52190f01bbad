"""Judges: how an episode ended, where its environment cannot tell."""
