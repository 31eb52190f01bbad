"""Proposers: where candidate actions come from."""
