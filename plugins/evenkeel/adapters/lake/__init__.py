"""The lake: Parquet and JSON artifacts that are written once."""
