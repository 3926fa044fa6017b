"""What a campaign's numbers answer: which set-up is faster, by how much, how sure, and what would decide it."""
