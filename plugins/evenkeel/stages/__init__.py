"""The stages of the data flow (docs/architecture.md) as functions; the command line and the Dags call the same ones."""
