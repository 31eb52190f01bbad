"""Who knows the right action: scripts that read what no agent sees. They teach the pocket models
and rate candidates."""
