"""Gates: data checks that say whether a snapshot may be planned with, and whether a plan may be applied.

The rules are functions over Arrow tables (`snapshot_rules`, `plan_rules`), the suites in `expectations/suites` choose
them and say how severe each is. Small data is judged in this process, large data by Great Expectations on Spark; only
the latter imports them.
"""
