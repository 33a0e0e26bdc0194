"""Decide which bundles move where: pure functions over integer arrays, without clock, environment or randomness.

    problem ← search ← explaining ← splitting ← pool ← cluster ← pulsar_strategies ← manual
                                        ↑
                                     verifier

Each package imports only those to its left. The verifier shares no code with the search.
"""
