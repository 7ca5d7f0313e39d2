"""The contents and the surroundings of a table directory: listings, links, other tables."""
