//go:build tools

// Package tools pins kwok and kwokctl, so that `go mod tidy` keeps their requirements and go.sum whole.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
	_ "sigs.k8s.io/kwok/cmd/kwokctl"
)
