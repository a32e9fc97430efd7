"""The wire: MCP messages in and out, with no transport and no AWS. `endpoint.Endpoint.handle` is the way in."""
