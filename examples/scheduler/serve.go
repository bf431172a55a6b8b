package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/coordcell/coord"
)

// Settings are what one server is started with: a JSON file.
type Settings struct {
	Name    string   // of this server
	Listen  string   // where it listens, host:port
	Servers []string // where all of them listen, this one too; the cell forms when all have met
	Dir     string   // this server's own
	Jobs    string   // the crontab
	Ledger  string   // the database that all of them share

	ElectionTimeout, TTL time.Duration // nanoseconds

	Clock    Clock
	SlowJob  string        // a job whose work takes its time:
	SlowWork time.Duration // so long
}

// serve runs one server until ctx ends. Its log is JSON, a line each, on out.
func serve(ctx context.Context, settings Settings, out io.Writer) (err error) {
	jobs, err := readJobs(settings.Jobs)
	if err != nil {
		return err
	}
	ledger, err := openLedger(settings.Ledger, dbTimeout)
	if err != nil {
		return err
	}
	defer ledger.Close()

	node, err := coord.Start(ctx, coord.Config{
		Name:            settings.Name,
		Cell:            "scheduler",
		Dir:             settings.Dir,
		Listen:          settings.Listen,
		Join:            settings.Servers,
		Expect:          len(settings.Servers),
		ElectionTimeout: settings.ElectionTimeout,
	})
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if stopErr := node.Shutdown(stopping); err == nil {
			err = stopErr
		}
	}()

	server := &Server{
		name: settings.Name,
		node: node,
		ttl:  settings.TTL,
		jobs: jobs,
		mine: func(i int) bool { return settings.Servers[i%len(settings.Servers)] == settings.Listen },
		work: func(job Job) {
			if job.Name == settings.SlowJob {
				time.Sleep(settings.SlowWork) // a real scheduler would run job.Command here
			}
		},
		ledger: ledger,
		clock:  settings.Clock,
		log:    slog.New(slog.NewJSONHandler(out, nil)),
	}
	return server.Run(ctx)
}

func readSettings(path string) (Settings, error) {
	var settings Settings
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &settings)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("settings %s: %w", path, err)
	}
	return settings, nil
}

func readJobs(path string) ([]Job, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	jobs, err := parseJobs(f)
	if err != nil {
		return nil, fmt.Errorf("%s:\n%w", path, err)
	}
	return jobs, nil
}
