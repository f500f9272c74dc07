"""The platform's Slurm."""
