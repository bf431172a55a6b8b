//go:build unix && !linux

package main

import "syscall"

// dieWithParent cannot be had here: servers outlive a demonstration that is itself killed with -9.
func dieWithParent() *syscall.SysProcAttr { return nil }
