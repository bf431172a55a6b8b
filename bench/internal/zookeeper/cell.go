// Package zookeeper is Apache ZooKeeper from Debian's package, three servers with its defaults, and the Go client with its
// lock recipe.
package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coordcell/coord/bench/internal/machine"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
)

const jar = "/usr/share/java/zookeeper.jar"

// Backend is ZooKeeper.
type Backend struct{}

func (Backend) About() string {
	return "3 servers, default settings, synced before the answer; a session is a connection"
}

func (Backend) Missing() string {
	if _, err := os.Stat(jar); err != nil {
		return "there is no " + jar + " on this machine: install Debian's package zookeeper"
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "there is no java on this machine: install Debian's package default-jre-headless"
	}
	return ""
}

func (Backend) Version() string {
	if v := machine.Output("dpkg-query", "-W", "-f=${Version}", "zookeeper"); v != "" {
		return "ZooKeeper " + v
	}
	return "ZooKeeper of unknown version"
}

func (Backend) Start(ctx context.Context, dir string) (peer.Cell, error) {
	// The class path in Debian's jar names everything but what writes the log.
	const classes = jar + ":/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar"
	addrs, err := proc.FreeAddrs(3 * peer.Servers)
	if err != nil {
		return nil, err
	}
	c := &cell{addrs: addrs[:peer.Servers]}
	for i := range peer.Servers {
		folder := filepath.Join(dir, fmt.Sprint("n", i))
		if err := configure(folder, i, addrs); err != nil {
			return nil, err
		}
		c.Add(folder, "java", "-Xmx2g", "-cp", classes,
			"-Dlog4j.configuration=file:"+filepath.Join(folder, "log4j.properties"),
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(folder, "zoo.cfg"))
	}
	err = c.StartAll()
	for i := 0; i < peer.Servers && err == nil; i++ {
		err = c.ready(ctx, i)
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// configure writes the files of server i. addrs are for clients first, then for followers, then for elections.
func configure(folder string, i int, addrs []string) error {
	data := filepath.Join(folder, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	_, port, _ := strings.Cut(addrs[i], ":")
	conf := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
		"maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n", data, port)
	for k := range peer.Servers {
		_, election, _ := strings.Cut(addrs[2*peer.Servers+k], ":")
		conf += fmt.Sprintf("server.%d=%s:%s\n", k+1, addrs[peer.Servers+k], election)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "zoo.cfg"), []byte(conf), 0o644),
		os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(i+1)), 0o644),
		os.WriteFile(filepath.Join(folder, "log4j.properties"), []byte("log4j.rootLogger=ERROR, C\n"+
			"log4j.appender.C=org.apache.log4j.ConsoleAppender\nlog4j.appender.C.layout=org.apache.log4j.SimpleLayout\n"), 0o644))
}

func (Backend) Attach(spec string) (peer.Cell, error) {
	c := &cell{}
	return c, json.Unmarshal([]byte(spec), &c.addrs)
}

type cell struct {
	proc.Group
	addrs []string
}

// Warm lets the JVMs compile what is measured.
func (*cell) Warm() time.Duration { return 5 * time.Second }

func (c *cell) Spec() string {
	text, err := json.Marshal(c.addrs)
	if err != nil {
		return err.Error() // strings always can be
	}
	return string(text)
}

func (c *cell) ready(ctx context.Context, i int) error {
	return proc.Until(ctx, 80*time.Second, func(ctx context.Context) error {
		if c.state(ctx, i) == "" {
			return fmt.Errorf("server %d does not serve", i)
		}
		return nil
	})
}

// state is "leader", "follower" or, while it does not serve, "".
func (c *cell) state(ctx context.Context, i int) string {
	text, err := c.monitor(ctx, i)
	if err != nil {
		return ""
	}
	return monitored(text, "zk_server_state")
}

// monitor is a server's answer to the command mntr.
func (c *cell) monitor(ctx context.Context, i int) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addrs[i])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // a connection just made has none yet
	if _, err := conn.Write([]byte("mntr")); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// monitored is the value under a key of the answer to mntr, or "".
func monitored(text, key string) string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			return f[1]
		}
	}
	return ""
}

func (c *cell) Leader(ctx context.Context) (number, pid int, err error) {
	err = proc.Until(ctx, 10*time.Second, func(ctx context.Context) error {
		for i := range c.addrs {
			if c.state(ctx, i) == "leader" {
				number, pid = i, c.PID(i)
				return nil
			}
		}
		return errors.New("no leader")
	})
	return number, pid, err
}

func (c *cell) Restart(ctx context.Context, i int) error {
	if err := c.Group.Start(i); err != nil {
		return err
	}
	return c.ready(ctx, i)
}

// received is how many packets the servers have got.
func (c *cell) received(ctx context.Context) (sum int64) {
	for i := range c.addrs {
		text, err := c.monitor(ctx, i)
		if err != nil {
			continue
		}
		n, _ := strconv.ParseInt(monitored(text, "zk_packets_received"), 10, 64)
		sum += n
	}
	return sum
}
