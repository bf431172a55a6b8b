// Package raftnode drives hashicorp/raft, and is the only package that does.
package raftnode
