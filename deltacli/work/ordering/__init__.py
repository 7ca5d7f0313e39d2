"""Sort rows of any number by a space-filling curve in bounded memory."""
