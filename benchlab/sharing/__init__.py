"""What people of a team say to each other and show to others: links for guests, comments, tags, notes, stars, views."""
