"""What values candidates, one file a scorer."""
