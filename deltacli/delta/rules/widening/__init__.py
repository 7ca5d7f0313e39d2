"""Rules about type widening."""
