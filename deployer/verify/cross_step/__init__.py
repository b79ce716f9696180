"""Judge of cross-step transfers and of choices that all calls of a step share."""
