"""From an element described in words to its point on the page, one way a file."""
