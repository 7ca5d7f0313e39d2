"""Operations that read: changes, history, snapshots, raw commits."""
