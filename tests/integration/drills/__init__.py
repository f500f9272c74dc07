"""The drill on one stack; a package, so that the stack ends with its last test."""
