"""What Evenkeel does on Spark: history into load profiles, split candidates, and plans pool by pool."""
