"""Operations that commit a change of metadata."""
