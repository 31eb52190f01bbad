"""Floor 4: tables, figures, statistics and one self-contained page over stored runs. Only core and store."""
