"""One file = one task, found by its file name. See `base` for what a task is."""
