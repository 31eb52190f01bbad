"""Floor 5: one command per recipe; errors are printed as sentences."""

import os

# Read when torch is loaded. A thread that waits for others then soon sleeps. By default it spins on, and where two
# commands share the cores each spins while the other would work.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
