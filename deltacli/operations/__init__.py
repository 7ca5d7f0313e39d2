"""Operations on tables: one module per operation, which returns values and prints nothing."""
