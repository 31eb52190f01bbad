"""Floor 5: one command per recipe; errors are printed as sentences."""
