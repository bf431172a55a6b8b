package replica

import (
	"sort"
	"time"

	"github.com/coordcell/coord/fsm"
)

const (
	timelineStep = 100 * time.Millisecond // at most one sample in this time
	timelineMost = 4096                   // samples; when full, the older half loses every second one
)

// timeline remembers when this server has seen which revision. A sample says that the state had reached Rev at At;
// what lies between two samples happened between them.
type timeline struct{ samples []sample }

type sample struct {
	rev fsm.Revision
	at  time.Duration
}

// reset begins anew: everything up to rev was there at the latest now.
func (t *timeline) reset(rev fsm.Revision, now time.Duration) {
	t.samples = append(t.samples[:0], sample{rev, now})
}

// note records that the state has reached rev now.
func (t *timeline) note(rev fsm.Revision, now time.Duration) {
	last := &t.samples[len(t.samples)-1]
	if rev <= last.rev {
		return
	}
	if len(t.samples) > 1 && now-last.at < timelineStep {
		last.rev = rev
		return
	}
	if len(t.samples) == timelineMost {
		t.thin()
	}
	t.samples = append(t.samples, sample{rev, now})
}

func (t *timeline) since(rev fsm.Revision, now time.Duration) time.Duration {
	i := sort.Search(len(t.samples), func(i int) bool { return t.samples[i].rev >= rev })
	if i == len(t.samples) {
		return 0
	}
	return max(0, now-t.samples[i].at)
}

// thin drops every second sample of the older half. The first one stays: it bounds everything before it.
func (t *timeline) thin() {
	kept := t.samples[:1]
	half := len(t.samples) / 2
	for i := 2; i < half; i += 2 {
		kept = append(kept, t.samples[i])
	}
	t.samples = append(kept, t.samples[half:]...)
}
