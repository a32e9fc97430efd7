"""Lambda functions: one folder each, a handler of a few lines."""
