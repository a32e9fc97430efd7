"""The endpoint over standard input and output: one JSON-RPC message a line (R-140 to R-145)."""
