package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const ttl = 2 * time.Second

func TestScheduleComesFromItsSeed(t *testing.T) {
	one, again, other := draw(7, 6, 10*time.Minute, ttl), draw(7, 6, 10*time.Minute, ttl), draw(8, 6, 10*time.Minute, ttl)
	if fmt.Sprint(one) != fmt.Sprint(again) {
		t.Error("the same seed gives two schedules")
	}
	if fmt.Sprint(one) == fmt.Sprint(other) {
		t.Error("two seeds give the same schedule")
	}
}

func TestScheduleHasEveryKindAndOrder(t *testing.T) {
	seen := make(map[kind]int)
	leaders := 0
	last := time.Duration(0)
	faults := draw(1, 6, time.Hour, ttl)
	for _, f := range faults {
		seen[f.kind]++
		if f.leader {
			leaders++
		}
		if f.at < last || f.at >= time.Hour {
			t.Fatalf("%v comes after %v, in an hour", f, last)
		}
		last = f.at
		if (f.lasts == 0) != (f.kind == transfer || f.kind == wipe) || f.lasts > 4*ttl {
			t.Errorf("%v: lasts %v", f, f.lasts)
		}
	}
	for _, w := range weights() {
		if seen[w.kind] == 0 {
			t.Errorf("an hour has no %q", w.kind)
		}
	}
	if share := float64(leaders) / float64(len(faults)); share < 0.4 || share > 0.6 {
		t.Errorf("%.2f of the faults are for the leader, want half", share)
	}
}

func TestFaultSaysWhatItIs(t *testing.T) {
	f := fault{at: 1500 * time.Millisecond, lasts: 300 * time.Millisecond, kind: split, leader: true, order: []int{2, 0, 1}, amount: 0.25}
	if got, want := f.String(), "   1.500s  split        leader, then cab 0.25 for 300ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRules(t *testing.T) {
	order := []int{3, 1, 0, 2, 4, 5} // d is hit
	tests := map[kind]string{        // who reaches whom, by sender
		split:   "a:cef b:d c:aef d:b e:acf f:ace",
		isolate: "a:bcef b:acef c:abef d: e:abcf f:abce",
		deaf:    "a:bcef b:acef c:abef d:abcef e:abcf f:abce",
		mute:    "a:bcdef b:acdef c:abdef d: e:abcdf f:abcde",
		pair:    "a:bcdef b:acef c:abdef d:acef e:abcdf f:abcde",
		bridge:  "a:bcd b:acd c:abd d:abcef e:df f:de",
		flap:    "a:bcef b:acef c:abef d: e:abcf f:abce",
		kill:    "a:bcdef b:acdef c:abdef d:abcef e:abcdf f:abcde",
	}
	for k, want := range tests {
		m := matrix(6, fault{kind: k}.rules(order, ttl))
		var got []string
		for from := range m {
			reached := ""
			for to := range m {
				if from != to && !m[from][to].cut {
					reached += hostName(to)
				}
			}
			got = append(got, hostName(from)+":"+reached)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", k, s, want)
		}
	}
}

func TestEffectsAddUp(t *testing.T) {
	all := hostsOf(0, 1, 2)
	m := matrix(3, []rule{
		{from: all, to: all, effect: effect{loss: 0.5, delay: time.Second}},
		{from: hostsOf(0), to: all, effect: effect{loss: 0.5, delay: time.Second, jitter: 3, twice: 0.5}},
		{from: hostsOf(0), to: hostsOf(2), effect: effect{cut: true}},
	})
	if want := (effect{loss: 0.75, twice: 0.5, delay: 2 * time.Second, jitter: 3}); m[0][1] != want {
		t.Errorf("from a to b: %+v, want %+v", m[0][1], want)
	}
	if want := (effect{loss: 0.5, delay: time.Second}); m[1][0] != want {
		t.Errorf("from b to a: %+v, want %+v", m[1][0], want)
	}
	if !m[0][2].cut || m[2][0].cut {
		t.Error("a cut of one direction is not one")
	}
	if m[1][1] != (effect{}) {
		t.Error("a host has a fault with itself")
	}
}
