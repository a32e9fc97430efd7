"""Registers the question of a workflow that waits with a task token."""
