"""`template.yaml` as `sam deploy` puts it into an account, and clients of the deployed API: `make e2e`."""
