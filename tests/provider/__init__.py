"""The provider over its gRPC interface; a package, so that its cloud ends with its last test."""
