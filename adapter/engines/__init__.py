"""Job systems: what runs the work of a task."""
