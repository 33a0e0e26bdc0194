"""What runs on this machine for the demo and the tests: ZooKeeper, brokers, Airflow, and their processes."""
