"""Floor 1: runs, tasks, episodes, steps and vectors in SQL; screenshots in content-addressed files."""
