"""What this project is made of, and what is known against it."""
