"""What tests stand on: tables built from descriptions, a model of their state, damages, the corpus, strategies."""
