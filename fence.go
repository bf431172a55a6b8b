package coord

import "github.com/coordcell/coord/fence"

// Token is the fencing token of one grant: a number above that of every earlier grant of the same name, across
// unlocks, expiry, changes of the cell's leader, and restarts.
//
// Holding a lock is advice: a process can be frozen between its last Check and its write, and wake up when somebody
// else holds the lock. What makes that harmless is a resource that remembers the highest token it has seen and refuses
// a lower one. Package fence has guards for such resources, which do not link anything of coord.
type Token = fence.Token
