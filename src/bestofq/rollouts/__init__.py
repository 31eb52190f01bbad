"""Floor 3: one episode; many episodes at once, resumable; episodes as transitions."""
