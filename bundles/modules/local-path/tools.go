//go:build tools

// Package tools names the programs this module builds, so that go.sum covers them.
package tools

import (
	_ "github.com/rancher/local-path-provisioner"
)
