"""The hard rules that one verifier checks on any plan, whoever made it."""
