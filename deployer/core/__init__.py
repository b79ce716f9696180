"""Core data model: tensors, nodes, operators, plans, targets and their costs, errors, safe text."""
