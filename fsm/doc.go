// Package fsm is the replicated state machine of a cell: sessions, locks, keys and their history.
package fsm
