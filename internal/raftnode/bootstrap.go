package raftnode

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// configurationOf makes the servers with these ids voters.
func configurationOf(ids []string) (c raft.Configuration) {
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	return c
}

// FinishBootstrap completes a Bootstrap that a crash has interrupted after its first write, the term, and before its
// second, the configuration. Raft refuses to bootstrap such a store. It is called before Open, with the ids of the
// Bootstrap; every server of a new cell writes the same entry, so that nothing depends on which of them did.
func FinishBootstrap(logs raft.LogStore, ids []string) error {
	last, err := logs.LastIndex()
	if err == nil && last != 0 {
		err = fmt.Errorf("the log has entries up to %d", last)
	}
	if err == nil {
		err = logs.StoreLog(&raft.Log{
			Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(configurationOf(ids)),
		})
	}
	if err != nil {
		return fmt.Errorf("raftnode: finish bootstrap: %w", err)
	}
	return nil
}
