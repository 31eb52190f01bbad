"""Agent Q's comparison: policies trained per seed, all methods on the same held-out tasks."""
