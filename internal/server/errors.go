package server

import (
	"errors"

	"github.com/coordcell/coord/internal/lease"
)

// What can go wrong, as the public package hands it on.
var (
	ErrInvalid        = errors.New("coord: invalid")
	ErrClosed         = errors.New("coord: node closed")
	ErrNoLeader       = errors.New("coord: no leader")
	ErrOutcomeUnknown = errors.New("coord: outcome unknown")
	ErrTooLarge       = errors.New("coord: too large")
	ErrLimit          = errors.New("coord: limit reached")
	ErrWrongCell      = errors.New("coord: wrong cell")
	ErrDirInUse       = errors.New("coord: directory in use")

	ErrSessionExpired = lease.ErrExpired
	ErrSessionClosed  = errors.New("coord: session closed")
)

// What a server says to itself and to other servers.
var (
	errClosing   = errors.New("the node is closing")
	errNotLeader = errors.New("not the leader")
)
