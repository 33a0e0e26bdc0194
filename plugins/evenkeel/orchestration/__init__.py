"""Everything that imports Airflow: the tasks of the Dags, the connection, the retry policies.

Dag files import from here and wire; a task imports what it needs when it runs, so that parsing stays cheap.
`local_airflow` is the exception: it starts an Airflow of its own and does not import it.
"""
