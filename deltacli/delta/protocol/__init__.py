"""Protocol versions, table features and table properties: what they mean and how they change."""
