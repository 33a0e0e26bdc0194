"""Everything that imports Airflow: the tasks of the Dags, the connection, the retry policies.

Dag files import from here and only wire tasks. A task imports what it needs when it runs, so that parsing stays cheap.
"""

from typing import Any, TypeAlias

TaskOutput: TypeAlias = Any
"""What one task passes to the next: a reference while Airflow parses the Dag, plain JSON while the task runs."""
