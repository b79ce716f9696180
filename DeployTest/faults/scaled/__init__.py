"""Results scaled by a little more than one: the smallest error of each operator, loss and optimizer that is found."""
