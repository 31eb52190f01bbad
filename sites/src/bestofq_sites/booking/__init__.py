"""Table reservations, local and real: the task of Agent Q, 6.1."""
