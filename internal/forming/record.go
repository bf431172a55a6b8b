package forming

import (
	"cmp"
	"fmt"
	"slices"
)

// Ballot orders proposals. No two proposals have the same one: a coordinator never uses a number twice.
type Ballot struct {
	Number uint64
	ID     string // of the coordinator
}

// Compare is negative if b comes before c.
func (b Ballot) Compare(c Ballot) int {
	if d := cmp.Compare(b.Number, c.Number); d != 0 {
		return d
	}
	return cmp.Compare(b.ID, c.ID)
}

// Proposal is a cell that might be formed.
type Proposal struct {
	Ballot  Ballot
	CellID  string
	Servers []string // ids, sorted
}

func (p Proposal) same(q Proposal) bool {
	return p.Ballot == q.Ballot && p.CellID == q.CellID && slices.Equal(p.Servers, q.Servers)
}

// Record is what a server has adopted: the last proposal, and the sets of servers of those before it. It is durable.
type Record struct {
	Proposal
	Earlier [][]string
}

// adopt returns the record after the adoption of p by the server id, or why that is refused. See the package's
// documentation for the rules.
func (r Record) adopt(p Proposal, id string) (Record, error) {
	if r.same(p) {
		return r, nil
	}
	if err := p.validate(); err != nil {
		return r, err
	}
	if p.Ballot.Compare(r.Ballot) <= 0 {
		return r, fmt.Errorf("a proposal of round %d was adopted before", r.Ballot.Number)
	}
	if !slices.Contains(p.Servers, id) {
		return r, fmt.Errorf("node %s is not among the proposed servers", id)
	}
	if set := r.conflict(p.Servers); set != nil {
		return r, fmt.Errorf("a cell of %v may have come to life without the proposed servers", set)
	}
	next := Record{Proposal: p}
	for _, set := range r.sets() {
		if !slices.Equal(set, p.Servers) {
			next.Earlier = append(next.Earlier, set)
		}
	}
	if len(next.Earlier) > maxSets {
		return r, fmt.Errorf("%d different sets of servers were tried before, at most %d", len(next.Earlier), maxSets)
	}
	return next, nil
}

// conflict returns an adopted set of which a majority lies outside of servers, or nil.
func (r Record) conflict(servers []string) []string {
	for _, set := range r.sets() {
		outside := 0
		for _, id := range set {
			if !slices.Contains(servers, id) {
				outside++
			}
		}
		if outside >= majority(len(set)) {
			return set
		}
	}
	return nil
}

// sets lists the sets of all proposals that were adopted.
func (r Record) sets() [][]string {
	if len(r.Servers) == 0 {
		return r.Earlier
	}
	return append(slices.Clone(r.Earlier), r.Servers)
}

func (p Proposal) validate() error {
	switch {
	case p.CellID == "" || p.Ballot.ID == "" || p.Ballot.Number == 0:
		return errMalformed
	case len(p.Servers) == 0 || len(p.Servers) > maxServers:
		return fmt.Errorf("forming: %d servers, at most %d", len(p.Servers), maxServers)
	case !slices.IsSorted(p.Servers) || len(slices.Compact(slices.Clone(p.Servers))) != len(p.Servers):
		return errMalformed
	}
	return nil
}

func majority(n int) int { return n/2 + 1 }

func (p Proposal) encode(e *encoder) {
	e.number(p.Ballot.Number)
	e.string(p.Ballot.ID)
	e.string(p.CellID)
	e.strings(p.Servers)
}

func (p *Proposal) decode(d *decoder) {
	p.Ballot.Number = d.number()
	p.Ballot.ID = d.string()
	p.CellID = d.string()
	p.Servers = d.strings()
}

func (r Record) encode(e *encoder) {
	r.Proposal.encode(e)
	e.number(uint64(len(r.Earlier)))
	for _, set := range r.Earlier {
		e.strings(set)
	}
}

func (r *Record) decode(d *decoder) {
	r.Proposal.decode(d)
	for range d.count(maxSets) {
		r.Earlier = append(r.Earlier, d.strings())
	}
}

// Encode returns the bytes that Save is given.
func (r Record) Encode() []byte {
	e := newEncoder()
	r.encode(e)
	return e.b
}

// DecodeRecord reads what Encode wrote. No bytes are no record: nothing was adopted.
func DecodeRecord(b []byte) (Record, error) {
	var r Record
	if len(b) == 0 {
		return r, nil
	}
	d := newDecoder(b)
	r.decode(d)
	if err := d.end(); err != nil {
		return Record{}, err
	}
	return r, r.validate()
}
