"""A web site of ours, served on loopback and played as text: what the shop and the booking site share.

A site is its pages, its rules and its reward (`rules.py`); the rest stands here once.
"""
