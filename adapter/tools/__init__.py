"""What is exposed: tools, their schemas, and the catalog that lists them."""
