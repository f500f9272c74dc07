//go:build tools

// Package tools pins etcd, so that `go mod tidy` keeps its requirements and go.sum whole.
package tools

import _ "go.etcd.io/etcd/server/v3"
