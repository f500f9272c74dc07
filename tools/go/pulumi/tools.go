//go:build tools

// Package tools pins the Pulumi CLI, so that `go mod tidy` keeps its requirements and go.sum whole.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
