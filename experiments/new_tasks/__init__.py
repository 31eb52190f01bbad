"""New tasks on new sites, written by a chat model from the tasks of another (Best-of-Q, E.1)."""
