"""How long commands take from start to end, against bare programs in the same run."""
