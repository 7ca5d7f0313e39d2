"""Operations that commit a change of metadata, and the commit itself."""
