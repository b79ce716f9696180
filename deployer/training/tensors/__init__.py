"""The float tensors of a forward model: what each one is for, and which of them are trained."""
