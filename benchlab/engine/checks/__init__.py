"""What is looked at before anything is done, and what was seen afterwards."""
