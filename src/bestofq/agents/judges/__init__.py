"""Judges: how an episode ended, if its environment cannot tell."""
