"""The MCP endpoint behind API Gateway, a function URL or a load balancer."""
