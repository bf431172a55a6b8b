// Package transporttest checks that a transport.Network behaves as the cell expects.
//
// Real networks know no virtual time, so some tests sleep for a moment. Where something must wait before the test
// goes on, a sleep that is too short makes the test weaker for once, and never fails it.
package transporttest

import (
	"context"
	"net"
	"testing"

	"github.com/coordcell/coord/transport"
)

// Config says what to test.
type Config struct {
	// Open returns a network; each test gets one of its own.
	Open func() transport.Network
	// Addr is what endpoints listen on, with port 0: several of them at a time. Default "127.0.0.1:0".
	Addr string
	// Around runs the body of each test; nil: the body as it is. A network for virtual time wants synctest.Test.
	Around func(t *testing.T, body func(t *testing.T))
}

// Run runs the whole suite, each test as a subtest.
func Run(t *testing.T, config Config) {
	if config.Addr == "" {
		config.Addr = "127.0.0.1:0"
	}
	if config.Around == nil {
		config.Around = func(t *testing.T, body func(t *testing.T)) { body(t) }
	}
	for _, test := range []struct {
		name string
		body func(*testing.T, bed)
	}{
		{"Listen/PortZeroIsFilledIn", portZeroIsFilledIn},
		{"Listen/AddressInUseIsNamed", addressInUseIsNamed},
		{"Listen/AgainAfterClose", listenAgainAfterClose},
		{"Listen/BadAddress", badAddress},
		{"Dial/NobodyListens", dialNobodyListens},
		{"Dial/EndedContext", dialEndedContext},
		{"Dial/ContextBoundsTheAttemptOnly", contextBoundsTheAttemptOnly},
		{"Stream/Addresses", streamAddresses},
		{"Stream/ManyBytesBothWays", manyBytesBothWays},
		{"Stream/CloseEndsAfterWhatWasWritten", closeEndsAfterWhatWasWritten},
		{"Stream/WritesToAClosedPeerFail", writesToAClosedPeerFail},
		{"Stream/OwnCloseEndsReadAndWrite", ownCloseEndsReadAndWrite},
		{"Stream/BackPressure", backPressure},
		{"Stream/ConcurrentUse", concurrentUse},
		{"Deadline/Past", deadlinePast},
		{"Deadline/EndsAWaitingRead", deadlineEndsAWaitingRead},
		{"Deadline/MovedWhileWaiting", deadlineMovedWhileWaiting},
		{"Deadline/ReadAndWriteAreSeparate", deadlinesAreSeparate},
		{"Packet/ArrivesWhole", packetArrivesWhole},
		{"Packet/TooLong", packetTooLong},
		{"Packet/NobodyListens", packetNobodyListens},
		{"Close/EndsEverything", closeEndsEverything},
		{"Close/Twice", closeTwice},
		{"Close/EndsADial", closeEndsADial},
		{"Dialler/HasStreamsOnly", diallerHasStreamsOnly},
		{"Dialler/CloseEndsEverything", closeEndsADialler},
		{"Dialler/EndedContext", diallerEndedContext},
		{"Clock/NeverGoesBack", clockNeverGoesBack},
	} {
		t.Run(test.name, func(t *testing.T) {
			config.Around(t, func(t *testing.T) { test.body(t, bed{config.Open(), config.Addr}) })
		})
	}
}

// bed is what one test works on.
type bed struct {
	network transport.Network
	addr    string
}

// listen opens an endpoint that lives as long as the test.
func (b bed) listen(t *testing.T) transport.Endpoint {
	t.Helper()
	e, err := b.network.Listen(context.Background(), b.addr)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// stream opens a stream between two new endpoints.
func (b bed) stream(t *testing.T) (dialled, accepted net.Conn) {
	t.Helper()
	return connect(t, b.listen(t), b.listen(t))
}

func connect(t *testing.T, from, to transport.Endpoint) (dialled, accepted net.Conn) {
	t.Helper()
	dialled, err := from.Dial(context.Background(), to.Addr())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { dialled.Close() })
	accepted, err = to.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialled, accepted
}
