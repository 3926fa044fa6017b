"""The documents of docs/, served to who is signed in."""
