"""Sites to learn on and to test with: a shop, a booking site and sites with quirks; and small models for them."""

__version__ = "0.1.0"
