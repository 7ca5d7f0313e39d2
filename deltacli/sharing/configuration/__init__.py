"""The configuration of a sharing server: what is shared, who may read it, and how it is served."""
