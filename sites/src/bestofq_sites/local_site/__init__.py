"""What our sites share: serving their pages on loopback, and playing them as text. `rules.py` says what a site is."""
