"""Scripts that know the right action: they teach the pocket models and rate candidates. No agent reads them."""
