"""Many sites whose pages look alike and whose rules differ: what a site does with an action shows by its consequences
alone, some of them several steps later."""
