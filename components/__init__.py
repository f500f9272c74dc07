"""What is declared: one room per part of the platform."""
