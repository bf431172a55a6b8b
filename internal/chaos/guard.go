//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"

	"github.com/coordcell/coord/fence"
)

// vault is the resource: it stands outside of the cell and of its network, and knows nothing but tokens. Processes reach
// it through a socket in the file system, which no partition cuts.
type vault struct {
	service  *vaultService
	listener net.Listener
	accepts  sync.WaitGroup
}

// Entry is one write to a resource. Package net/rpc wants its name, and the next, exported.
type Entry struct {
	Resource string
	Token    uint64
}

// Reception is the vault's answer.
type Reception struct {
	Stale   bool
	Highest uint64
}

func openVault(path string) (*vault, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	v := &vault{service: &vaultService{memory: fence.NewMemory()}, listener: l}
	server := rpc.NewServer()
	if err := server.RegisterName("Vault", v.service); err != nil {
		_ = l.Close()
		return nil, err
	}
	v.accepts.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			go server.ServeConn(conn) // ends with the process at its other end
		}
	})
	return v, nil
}

func (v *vault) close() error {
	err := v.listener.Close()
	v.accepts.Wait()
	return err
}

type vaultService struct {
	memory          *fence.Memory
	accepted, stale atomic.Uint64
}

// Write is called through net/rpc.
func (s *vaultService) Write(e Entry, r *Reception) error {
	err := s.memory.Do(context.Background(), e.Resource, fence.Token(e.Token), func(context.Context) error { return nil })
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		s.stale.Add(1)
		*r = Reception{Stale: true, Highest: uint64(stale.Highest)}
		return nil
	}
	s.accepted.Add(1)
	return err
}

// remoteGuard is the vault as a worker sees it. What it guards is at the vault: a write that Do is given has nothing left
// to do, and runs after the vault has accepted the token.
type remoteGuard struct{ client *rpc.Client }

var _ fence.Guard = remoteGuard{}

func dialVault(path string) (remoteGuard, error) {
	client, err := rpc.Dial("unix", path)
	if err != nil {
		return remoteGuard{}, fmt.Errorf("vault: %w", err)
	}
	return remoteGuard{client}, nil
}

// Do implements fence.Guard. If ctx ends first, the vault may have accepted the token or may yet.
func (g remoteGuard) Do(ctx context.Context, resource string, t fence.Token, write func(context.Context) error) error {
	var r Reception
	call := g.client.Go("Vault.Write", Entry{resource, uint64(t)}, &r, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case call.Error != nil:
		return call.Error
	case r.Stale:
		return &fence.StaleError{Resource: resource, Got: t, Highest: fence.Token(r.Highest)}
	}
	return write(ctx)
}
