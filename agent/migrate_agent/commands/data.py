"""`migrate-agent convert-data`: the parquet converter alone."""
