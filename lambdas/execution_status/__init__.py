"""Writes the ends of executions through to their tasks, as EventBridge tells them (D7)."""
