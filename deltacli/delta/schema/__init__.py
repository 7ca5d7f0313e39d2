"""Table schemas: types, parsing. Spec: Schema Serialization Format."""
