"""Dialects, one a file: how a prompt asks for an action, how a reply is read, how an action is written."""
