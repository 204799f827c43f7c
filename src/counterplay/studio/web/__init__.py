"""The pages: what people see, and what stands between them and the log."""
