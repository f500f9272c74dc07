//go:build tools

// Package tools pins alertmanager and amtool, so that `go mod tidy` keeps their requirements and go.sum whole.
package tools

import (
	_ "github.com/prometheus/alertmanager/cmd/alertmanager"
	_ "github.com/prometheus/alertmanager/cmd/amtool"
)
