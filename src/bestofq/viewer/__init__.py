"""Floor 5: web pages over stored runs, made on the server; what a store holds is text in them, never markup."""
