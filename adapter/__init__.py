"""An MCP server that turns AWS Step Functions state machines into tools that run as tasks."""

__version__ = "0.1.0"
