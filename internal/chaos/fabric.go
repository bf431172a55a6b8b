//go:build linux

package main

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mtu        = 1500
	maxDelayed = 4096 // packets of one direction that wait; more are lost
)

// fabric carries IP packets between the network devices of the hosts, as a switch and its cables would, and does to them
// what the rules say. Its methods may be called concurrently.
type fabric struct {
	ports   []*os.File // TUN devices, by host
	effects atomic.Pointer[[][]effect]
	delayed [][]atomic.Int32 // by sender and receiver
	readers sync.WaitGroup
	late    sync.WaitGroup // packets that wait

	carried, lost atomic.Uint64
}

// newFabric owns the ports from now on.
func newFabric(ports []*os.File) *fabric {
	f := &fabric{ports: ports, delayed: make([][]atomic.Int32, len(ports))}
	for i := range ports {
		f.delayed[i] = make([]atomic.Int32, len(ports))
	}
	f.set(nil)
	for i := range ports {
		f.readers.Go(func() { f.read(i) })
	}
	return f
}

// set replaces the rules.
func (f *fabric) set(rules []rule) {
	m := matrix(len(f.ports), rules)
	f.effects.Store(&m)
}

func (f *fabric) close() {
	for _, p := range f.ports {
		_ = p.Close()
	}
	f.readers.Wait()
	f.late.Wait()
}

// read takes what one host sends until its port is closed.
func (f *fabric) read(from int) {
	buf := make([]byte, mtu+64)
	for {
		n, err := f.ports[from].Read(buf)
		if err != nil {
			return
		}
		if to, ok := receiver(buf[:n]); ok && to < len(f.ports) && to != from {
			f.carry(from, to, buf[:n])
		}
	}
}

// receiver is the host that an IPv4 packet is for. Everything else that a kernel sends by itself goes nowhere.
func receiver(packet []byte) (int, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 || [3]byte(packet[16:19]) != subnet() {
		return 0, false
	}
	return int(packet[19]) - 1, packet[19] > 0
}

func (f *fabric) carry(from, to int, packet []byte) {
	e := (*f.effects.Load())[from][to]
	if e.cut || e.loss > 0 && rand.Float64() < e.loss {
		f.lost.Add(1)
		return
	}
	f.deliver(from, to, packet, e)
	if e.twice > 0 && rand.Float64() < e.twice {
		f.deliver(from, to, packet, e)
	}
}

func (f *fabric) deliver(from, to int, packet []byte, e effect) {
	wait := e.delay
	if e.jitter > 0 {
		wait += rand.N(e.jitter)
	}
	f.carried.Add(1)
	if wait == 0 {
		_, _ = f.ports[to].Write(packet) // a host that takes no packets loses them
		return
	}
	waiting := &f.delayed[from][to]
	if waiting.Add(1) > maxDelayed {
		waiting.Add(-1)
		f.lost.Add(1)
		return
	}
	packet = append([]byte(nil), packet...)
	f.late.Add(1)
	time.AfterFunc(wait, func() {
		defer f.late.Done()
		defer waiting.Add(-1)
		_, _ = f.ports[to].Write(packet)
	})
}
