"""The page in Airflow: guarded routes that read the lake and ZooKeeper, and the app that shows what they return."""
