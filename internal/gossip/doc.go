// Package gossip is how the servers of a cell find each other: hashicorp/memberlist on the port that a node already has.
//
// Gossip suggests and decides nothing. It says who seems to be alive, under which address, and what a server claims
// about itself; who belongs to the cell and who votes is for raft's configuration alone, and no voter is ever removed
// because of what is said here.
//
// Three things differ from memberlist as it comes:
//
//   - Nodes are reached by id, never by the IP address that memberlist keeps for them. Each server's address travels
//     in its metadata, and memberlist sees one and the same placeholder for all. So a server that returns on a new
//     address contradicts nobody, an address may be a DNS name, and an in-memory network needs no IPs.
//   - memberlist forgets the dead and never looks for them again: two halves of a cell that were cut apart for longer
//     than that would not meet any more. Servers that are known but not alive are therefore joined again for ever.
//   - memberlist panics on some malformed messages, and the panic would end the host program. What arrives is checked
//     for its shape first.
package gossip
