"""Operations on Paimon tables."""
