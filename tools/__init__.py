"""The toolchain and the front door: everything between `make` and the tools it runs."""
