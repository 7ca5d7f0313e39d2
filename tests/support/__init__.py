"""What tests stand on: tables built from descriptions, a model of their state, named damages, the corpus, strategies."""
