"""Results of commands on Paimon tables."""
