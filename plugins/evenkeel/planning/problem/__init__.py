"""One pool as arrays: bundles, brokers, rules, budgets and the band."""
