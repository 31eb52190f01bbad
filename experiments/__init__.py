"""Every published number: settings, results and the code that only they need. Run `python -m experiments`."""
