"""What libraries take of boards."""
