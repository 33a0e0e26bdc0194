"""Transforms, DataFrame to DataFrame, one concept a module; apply them with `.transform(f, args)`."""
