"""Logs of real agents, and what they teach."""
