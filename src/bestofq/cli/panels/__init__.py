"""The commands, a module for each panel of `bestofq --help`. Each imports what it needs when it runs: help is quick."""
