"""One verifier for any plan, whoever made it: the hard rules, the budgets and a replay of the waves."""
