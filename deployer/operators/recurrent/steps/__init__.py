"""The steps through time of a recurrent layer, forward and backward, and what they share."""
