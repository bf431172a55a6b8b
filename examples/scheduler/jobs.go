package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Job is one line of a crontab.
type Job struct {
	Name     string // the last part of the command's path
	Command  string
	schedule cron.Schedule
}

// Next returns the first minute after t at which the job is due. It is zero if there is none for years.
func (j Job) Next(t time.Time) time.Time { return j.schedule.Next(t) }

// Due returns every minute in (after, until] at which the job is due.
func (j Job) Due(after, until time.Time) []time.Time {
	var due []time.Time
	for m := j.Next(after); !m.IsZero() && !m.After(until); m = j.Next(m) {
		due = append(due, m)
	}
	return due
}

// parseJobs reads a crontab as users write them: five fields and a command, or @hourly and its like. Times are UTC; lines
// that set a variable for the commands are passed over. All bad lines are reported at once.
func parseJobs(r io.Reader) ([]Job, error) {
	var (
		jobs []Job
		errs []error
		seen = make(map[string]int) // name to line
	)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || isAssignment(line) {
			continue
		}
		job, err := parseJob(line)
		if err == nil && seen[job.Name] != 0 {
			err = fmt.Errorf("job %q is on line %d already", job.Name, seen[job.Name])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		seen[job.Name] = n
		jobs = append(jobs, job)
	}
	errs = append(errs, lines.Err())
	if len(jobs) == 0 {
		errs = append(errs, errors.New("no job"))
	}
	return jobs, errors.Join(errs...)
}

// isAssignment tells NAME=value and NAME = value from a job: no field of time has a = in it.
func isAssignment(line string) bool {
	name, _, found := strings.Cut(line, "=")
	return found && len(strings.Fields(name)) == 1
}

func parseJob(line string) (Job, error) {
	times := 5
	if line[0] == '@' {
		times = 1
	}
	fields := strings.Fields(line)
	if len(fields) <= times {
		return Job{}, fmt.Errorf("want %d fields of time and a command: %q", times, line)
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	schedule, err := parser.Parse(strings.Join(fields[:times], " "))
	if err != nil {
		return Job{}, err
	}
	if schedule.Next(time.Unix(0, 0).UTC()).IsZero() {
		return Job{}, fmt.Errorf("%s never comes", strings.Join(fields[:times], " "))
	}
	return Job{Name: path.Base(fields[times]), Command: strings.Join(fields[times:], " "), schedule: schedule}, nil
}
