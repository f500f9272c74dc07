"""A site of real Slurm daemons; a package, so that it ends with its last test."""
