"""Best-of-Q and Agent Q: make a frozen web agent better at inference, and learn from its episodes."""

__version__ = "0.1.0"
