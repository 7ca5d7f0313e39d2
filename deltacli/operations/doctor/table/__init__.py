"""`doctor table`: the state of one table in numbers, and advice with the numbers of now and of afterwards."""
