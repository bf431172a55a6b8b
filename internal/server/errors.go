package server

import (
	"errors"

	"github.com/coordcell/coord/internal/caller"
)

// What can go wrong, as the public package hands it on.
var (
	ErrInvalid   = caller.ErrInvalid
	ErrClosed    = caller.ErrClosed
	ErrNoLeader  = caller.ErrNoLeader
	ErrTooLarge  = caller.ErrTooLarge
	ErrLimit     = caller.ErrLimit
	ErrWrongCell = caller.ErrWrongCell
	ErrDirInUse  = errors.New("coord: directory in use")
)

// What a server says to itself and to other servers.
var (
	errClosing   = caller.ErrClosing
	errNotLeader = caller.ErrNotLeader
	errNotSent   = caller.ErrNotSent
)
