"""Search over web pages: the tree, MCTS, ways back to a page, preference pairs (Agent Q, 5)."""
