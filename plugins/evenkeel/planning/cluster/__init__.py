"""The plan of a whole cluster: budgets, order, waves and figures over all pools."""
