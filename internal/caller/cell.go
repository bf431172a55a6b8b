package caller

import (
	"fmt"
	"time"

	"github.com/coordcell/coord/fsm"
)

// Status is what a node knows of itself and its cell.
type Status struct {
	ID, Name, Cell, CellID string
	Client                 bool // it keeps no replica
	Voter, IsLeader        bool
	Leader                 string
	Term                   uint64
	Applied, Committed     uint64
	Revision               fsm.Revision
	Counts                 fsm.Counts
	Evidence               time.Duration
}

// Member is a server of the cell as a node sees it.
type Member struct {
	ID, Name, Addr string
	Voter, Leader  bool
	Alive          bool
	LastContact    time.Duration
}

// VoterNamed finds the voter of an id or a name; "" is "", if there is another voter to choose from.
func VoterNamed(members []Member, to string) (id string, err error) {
	var found []string
	voters := 0
	for _, m := range members {
		switch {
		case !m.Voter:
			continue
		case m.ID == to:
			return m.ID, nil
		case m.Name == to:
			found = append(found, m.ID)
		}
		voters++
	}
	switch {
	case to == "" && voters > 1:
		return "", nil
	case to == "":
		return "", fmt.Errorf("%w: there is no other voter", ErrInvalid)
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return "", fmt.Errorf("%w: no voter has this id or name", ErrInvalid)
	default:
		return "", fmt.Errorf("%w: %d voters have this name: say the id", ErrInvalid, len(found))
	}
}

// LimitError is the error for a change that a cell with these Params has refused because of a limit.
func LimitError(p fsm.Params, l fsm.Limit) error {
	name, most := "Sessions", p.Sessions
	switch l {
	case fsm.LimitSessions:
	case fsm.LimitLocks:
		name, most = "Locks", p.Locks
	case fsm.LimitKeys:
		name, most = "Keys", p.Keys
	case fsm.LimitWaiters:
		name, most = "Waiters", p.Waiters
	default:
		return fmt.Errorf("%w: %d unanswered changes of one session", ErrLimit, fsm.MaxOutstanding)
	}
	return fmt.Errorf("%w: the cell has Limits.%s, %d", ErrLimit, name, most)
}
