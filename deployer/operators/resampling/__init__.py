"""Resampling: tensors whose axes get other lengths, by values between those that they have."""
