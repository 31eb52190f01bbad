"""Floor 1: a real Chromium, one page per episode; the only package that imports Playwright."""
