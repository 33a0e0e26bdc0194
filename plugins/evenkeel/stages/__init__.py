"""The stages of DESIGN section 1 as functions; the command line and the Dags call the same ones."""
