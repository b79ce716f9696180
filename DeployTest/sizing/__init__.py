"""Tests of the resources that libraries take of boards."""
