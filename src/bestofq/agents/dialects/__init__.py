"""Dialects: how a model is asked for an action, how its reply is read, how an action is written. One a file."""
