package gossip

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/transport"
)

// What users of other systems ran into, where it can be shown on gossip alone. docs/FAULTS.md has the table.

// Saw: a partition that lasts for longer than the dead are gossiped to, and all sides forget each other for good.
// Here: with everybody alone for minutes, and one of them back at another address by then, they are together again
// within half a minute.
func TestFault_memberlist222_EverybodyForgetsEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory()
		seeds := []string{"h1:1", "h2:1"}
		a, b := onNetwork(t, network, "a", "h1:1", seeds...), onNetwork(t, network, "b", "h2:1", seeds...)
		c := onNetwork(t, network, "c", "h3:1", seeds...)
		time.Sleep(5 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1 c@h3:1", a, b, c)
		network.Partition([]string{"h1:1"}, []string{"h2:1"}, []string{"h3:1"})
		time.Sleep(time.Minute)
		_ = c.Close()
		c = onNetwork(t, network, "c", "h4:1", seeds...) // its partition too: of all that are in no group
		time.Sleep(2 * time.Minute)
		wantAlive(t, "a@h1:1", a)
		wantAlive(t, "b@h2:1", b)
		wantAlive(t, "c@h4:1", c)
		network.HealAll()
		time.Sleep(30*time.Second + tcpTimeout)
		wantAlive(t, "a@h1:1 b@h2:1 c@h4:1", a, b, c)
	})
}

// deafPort is a port whose packets get lost while its streams go on, so that each probe falls back to a stream.
type deafPort struct{ *fakePort }

func (deafPort) WritePacket([]byte, string) error { return nil }

// goroutines counts those that were started under a label.
func goroutines(label string) (n int) {
	var out bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&out, 1)
	_, records, _ := strings.Cut(out.String(), "\n") // after a heading
	for record := range strings.SplitSeq(records, "\n\n") {
		var count int
		if strings.Contains(record, label) {
			_, _ = fmt.Sscanf(record, "%d @", &count)
			n += count
		}
	}
	return n
}

// Saw: each probe whose packet was lost and whose stream got through left a goroutine behind.
// Here: after thousands of such probes there are as many goroutines as before, and nobody is taken for dead.
func TestFault_memberlist71_ProbesByStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("fault", "memberlist71")))
		n := newFakeNet()
		var all []*Gossip
		for i, id := range []string{"a", "b", "c"} {
			addr := fmt.Sprintf("h%d:1", i+1)
			g, err := Start(Config{
				ID: id, Meta: Meta{Cell: "c", Addr: addr}, Join: []string{"h1:1"}, Port: deafPort{n.listen(t, addr, id)},
				ElectionTimeout: 100 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			all = append(all, g)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := goroutines("memberlist71")
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if after := goroutines("memberlist71"); before == 0 || after > before+5 {
			t.Errorf("%d goroutines, there were %d", after, before)
		}
		wantAlive(t, "a@h1:1 b@h2:1 c@h3:1", all...)
	})
}
