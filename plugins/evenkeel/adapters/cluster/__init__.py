"""The cluster as it is: readers for every kind of cluster, ownership, the writer's views, and connecting."""
