"""Operations that read: rows, changes, history, snapshots, raw commits."""
