"""What planning made of 2,300 queries before planning was rebuilt: it must make the same of them afterwards."""
