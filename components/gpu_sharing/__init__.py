"""GPU sharing between training in Slurm and inference on Kubernetes."""
