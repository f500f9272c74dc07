"""The project's numbers, each measured and compared inside one run (`make bench`)."""
