//go:build tools

// Package tools pins actionlint, so that `go mod tidy` keeps its requirements and go.sum whole.
package tools

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
