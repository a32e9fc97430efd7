"""The domain: tasks, the protocols of a job system and of a record store, and the service that joins them."""
