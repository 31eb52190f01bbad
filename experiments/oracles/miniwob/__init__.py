"""Scripted solvers of MiniWoB++ tasks: they prove the suite's rewards, and show a model how its tasks are done."""
