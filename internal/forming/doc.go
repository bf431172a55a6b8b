// Package forming decides how a server without state gets into a cell, and who is let into one.
//
// # A new cell
//
// N servers (Expect) that have no state agree on a cell: an id, and the set S of the N that make it up. In rounds,
// each server without state asks all that it sees where they stand. Then:
//
//  1. If one has state, there is a cell already: the server asks to be admitted to it.
//  2. Else, once N without state have answered, agree in Expect and in the limits, and none that is seen has failed to
//     answer, the set S is chosen: that of the last proposal if all its members are there, else the N lowest ids.
//  3. The lowest id in S coordinates. It proposes (ballot, cell id, S), the ballot above all that it has heard of.
//  4. Each member of S ADOPTS the proposal: it records it on disk, unless it has state, or has adopted a proposal with
//     the same or a higher ballot, or one whose set has a majority outside of S. The last holds for every set that it
//     ever adopted.
//  5. When all of S have adopted the proposal it is complete. A member that hears so (the coordinator says it, or all
//     others say that they have adopted that very ballot, or that they have state of that cell) BOOTSTRAPS: it writes S
//     as raft's first configuration, if it has no state and the proposal is still the last one that it adopted.
//
// A cell has come to life when a majority of S have bootstrapped: only then can raft elect a leader.
//
// # Why no two cells with a common member come to life
//
// Let p be a member of S and of S', and let both proposals be complete, with ballots B < B' (no two are equal, see
// below). Every member of both sets has adopted both, B before B', as ballots only rise. When p adopted B', the set S
// was among those it had adopted, so no majority of S lies outside of S'. Suppose that the cell of B comes to life: a
// majority of S bootstraps it, and one of them, q, is in S' too. q bootstrapped B while B was its last adopted
// proposal, so before it adopted B'. But then it had state and never adopted B', which is not complete: a
// contradiction.
//
// It matters that p remembers every set and not only the last: else it could go from {p,q,r} by way of a proposal
// {p,r,s} that nobody else adopts to {p,s,t}, while q and r complete the first.
//
// A ballot is a number and the id of its coordinator. The coordinator records its own proposal before it sends it, so
// it never uses a number twice.
//
// The same holds if a cell is proposed again under a higher ballot, as happens when one member has bootstrapped it and
// the others have since adopted something else: a server that has state of that cell counts as having adopted it, since
// it never will adopt anything else.
//
// # Why a crash does not block
//
// Adoption is durable, and every message may be lost, doubled or late. Whoever returns asks the others. If a proposal is
// complete and its coordinator gone, the members find that out from each other. If it is not complete the next round
// replaces it: with the same set always, with another one as long as that leaves no majority of the old one outside. If
// a majority of a set that was adopted is gone for good, those left refuse to form anything else, rightly: the others
// may live on as a cell, out of sight. The rest of the servers form without them, and they join.
//
// One case is left to people. A member that bootstraps, and is then cut off before any other member did, finds on its
// return that the others have formed another cell without it. Nothing was ever committed in its own. It cannot tell
// that from here; the handshake refuses it, and its directory has to be removed.
//
// Ids matter and addresses never do: all servers may come back on new addresses at any step.
//
// # Joining
//
// The leader admits a server as a non-voter (see decideAdmission) and makes it a voter once it has caught up, so that the
// number of voters stays odd (see decideStep). A new id that comes with the name of a known one asks to replace it, which is
// granted only while the known one is dead and a majority of the voters is healthy.
package forming
