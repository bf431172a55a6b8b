package transport_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/coordcell/coord/transport"
)

// dialler opens an endpoint that only dials.
func (l lab) dialler(network transport.Network) transport.Endpoint {
	l.Helper()
	e, err := network.Listen(context.Background(), "")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { e.Close() })
	return e
}

func (l lab) hostOf(c net.Conn) string {
	l.Helper()
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		l.Fatal(err)
	}
	return host
}

func TestMemoryDiallersHaveHosts(t *testing.T) {
	inLab(t, func(l lab) {
		for _, want := range []string{"dialler-1", "dialler-2"} {
			dialled, _ := l.stream(l.dialler(l.Memory), l.a)
			if host := l.hostOf(dialled); host != want {
				l.Errorf("%s, want %s", host, want)
			}
		}
		app := l.On("app")
		for range 2 {
			dialled, _ := l.stream(l.dialler(app), l.a)
			if host := l.hostOf(dialled); host != "app" {
				l.Errorf("%s, want app", host)
			}
		}
		e, err := app.Listen(context.Background(), "10.0.0.9:7420")
		if err != nil {
			l.Fatal(err)
		}
		defer e.Close()
		l.stream(l.a, e)
	})
}

func TestMemoryDialler(t *testing.T) {
	inLab(t, func(l lab) {
		one, two := l.dialler(l.On("app")), l.dialler(l.On("other"))
		dialled, accepted := l.stream(one, l.a)

		l.Cut("app", addrA)
		l.write(accepted, "held")
		l.silence(dialled, time.Second)
		l.cannotDial(one, l.a)
		l.stream(two, l.a)
		l.HealAll()
		l.read(dialled, "held", time.Millisecond)

		l.SetDelay("app", addrA, 70*time.Millisecond)
		l.write(dialled, "slow")
		l.read(accepted, "slow", 70*time.Millisecond)

		l.Pause("app")
		l.write(dialled, "frozen")
		l.silence(accepted, time.Second)
		l.Resume("app")
		l.read(accepted, "frozen", 70*time.Millisecond)

		l.Kill("app")
		l.broken(accepted, syscall.ECONNRESET)
	})
}

func TestMemoryDiallerClockRate(t *testing.T) {
	inLab(t, func(l lab) {
		l.SetClockRate("app", 2)
		fast, other := l.dialler(l.On("app")), l.dialler(l.Memory)
		atFast, atOther := fast.Now(), other.Now()
		time.Sleep(time.Second)
		if one, two := fast.Now()-atFast, other.Now()-atOther; one != 2*time.Second || two != time.Second {
			l.Errorf("%v and %v have passed", one, two)
		}
	})
}
