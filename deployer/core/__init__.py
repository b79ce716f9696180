"""What all rooms speak of: tensors, nodes and operators, plans, targets and their costs, errors, safe text."""
