package transport_test

import (
	"testing"
	"testing/synctest"

	"github.com/coordcell/coord/transport"
	"github.com/coordcell/coord/transport/transporttest"
)

func TestTCPConforms(t *testing.T) {
	transporttest.Run(t, transporttest.Config{Open: transport.TCP})
}

func TestMemoryConforms(t *testing.T) {
	transporttest.Run(t, transporttest.Config{Open: memory})
}

func TestMemoryConformsInVirtualTime(t *testing.T) {
	transporttest.Run(t, transporttest.Config{Open: memory, Around: synctest.Test})
}

func memory() transport.Network { return transport.NewMemory() }
