"""What stands before the application: who may ask, how much, what is recorded, and the port for operators."""
