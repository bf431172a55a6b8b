package zookeeper

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMonitored(t *testing.T) {
	const answer = "zk_version\t3.8.0-${mvngit.commit.id}, built on a day\nzk_server_state\tleader\nzk_packets_received\t17\n"
	if got := monitored(answer, "zk_server_state"); got != "leader" {
		t.Errorf("got %q", got)
	}
	if got := monitored("This ZooKeeper instance is not currently serving requests\n", "zk_server_state"); got != "" {
		t.Errorf("got %q of a server that does not serve", got)
	}
}

func TestConfigure(t *testing.T) {
	folder := t.TempDir()
	addrs := []string{"h:1", "h:2", "h:3", "h:4", "h:5", "h:6", "h:7", "h:8", "h:9"}
	if err := configure(folder, 1, addrs); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "zoo.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"clientPort=2\n", "server.1=h:4:7\n", "server.3=h:6:9\n"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	if id, err := os.ReadFile(filepath.Join(folder, "data", "myid")); err != nil || string(id) != "2" {
		t.Errorf("id %q, %v", id, err)
	}
}
