"""The endpoint over HTTP: a Starlette application."""
