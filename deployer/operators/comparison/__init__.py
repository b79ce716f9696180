"""Declared comparisons, logic, and the choice by a truth: truths are int32 here, 0 or 1."""
