package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

const (
	peersFile    = "peers"
	peersVersion = 1
	maxPeers     = 1024
)

// Peer is where another server was last seen.
type Peer struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Addr string `json:"addr"`
}

// SavePeers replaces the last known addresses of the other servers. They are hints: an error leaves the earlier ones,
// and does not trip the switch; a stall does.
func (s *Store) SavePeers(peers []Peer) error {
	if len(peers) > maxPeers {
		return fmt.Errorf("store: %d peers, the limit is %d", len(peers), maxPeers)
	}
	peers = slices.Clone(peers)
	data, err := frame(peersFile, peersVersion, peers)
	if err != nil {
		return err
	}
	var failed error
	ok := s.g.do(OpWritePeers, func() error {
		failed = s.v.write(OpWritePeers, peersFile, data)
		return nil
	})
	if !ok {
		return s.g.sw.Err()
	}
	if failed != nil {
		return failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = peers
	return nil
}

// Peers returns the last known addresses of the other servers, as Open found them or SavePeers left them.
func (s *Store) Peers() []Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.peers)
}

// loadPeers returns none if the file is missing or cannot be read: peers can be found by other means.
func (s *Store) loadPeers() {
	data, err := s.v.read(peersFile)
	if err == nil {
		s.peers, err = decodePeers(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.g.log.Warn("the last known addresses of other servers cannot be read and are ignored", "file", s.v.path(peersFile), "error", err)
	}
}

func decodePeers(data []byte) ([]Peer, error) {
	var peers []Peer
	if _, err := unframe(data, peersFile, peersVersion, &peers); err != nil {
		return nil, err
	}
	return peers, nil
}
