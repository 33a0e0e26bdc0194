"""Which moves fit the budgets, in which order and in which waves."""
