"""One file = one architecture, found by its file name. See `base` for what a model is."""
