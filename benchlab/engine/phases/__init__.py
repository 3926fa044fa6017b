"""What is done to a layout and its attempts, phase by phase."""
