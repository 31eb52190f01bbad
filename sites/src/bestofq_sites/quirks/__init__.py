"""Sites whose pages look alike and whose rules differ. Only the consequences of actions show the rules."""
