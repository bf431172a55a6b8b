package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fence"
)

// Server is the scheduler of one process. All servers of the cell know the same jobs; each job has one elected runner,
// and each run is recorded under the token of that election.
type Server struct {
	name   string
	node   *coord.Node
	ttl    time.Duration
	jobs   []Job
	mine   func(index int) bool // the jobs that this server is the first to compete for, so that they spread
	work   func(Job)            // what a run does before it is recorded
	ledger *Ledger
	clock  Clock
	log    *slog.Logger
}

const (
	catchUp   = time.Hour   // a new runner goes back so far, in jobs' time, to make up for what was missed
	headStart = time.Second // what a server leaves to another before it competes for that one's jobs
	dbTimeout = 30 * time.Second
)

// Run serves until ctx ends, through any number of sessions: one that is lost is replaced, and competes anew.
func (s *Server) Run(ctx context.Context) error {
	if err := s.node.WaitReady(ctx); err != nil {
		return err
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	reports.Go(func() { s.reportLeadership(ctx) })
	for ctx.Err() == nil {
		session, err := s.node.NewSession(ctx, coord.WithTTL(s.ttl), coord.WithLabel(s.name))
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		s.log.Info("session opened")
		s.serve(ctx, session)
		s.log.Info("session over", "why", session.Err())
	}
	return nil
}

// serve competes for every job until the session ends, or ctx does; then it gives all of them back.
func (s *Server) serve(ctx context.Context, session *coord.Session) {
	ctx, cancel := both(ctx, session.Context())
	defer cancel()
	var competing sync.WaitGroup
	for i, job := range s.jobs {
		competing.Go(func() {
			if !s.mine(i) {
				pause(ctx, headStart)
			}
			for ctx.Err() == nil && session.Err() == nil {
				s.compete(ctx, session, job)
			}
		})
	}
	competing.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.ttl)
	defer cancel()
	_ = session.Close(closing) // if this fails, the cell ends the session after its TTL
}

// compete waits until this server is the job's runner, and is it for as long as it may be.
func (s *Server) compete(ctx context.Context, session *coord.Session, job Job) {
	lead, err := session.Campaign(ctx, resource(job.Name), []byte(s.name))
	if err == nil {
		err = s.run(ctx, lead, job)
		s.log.Info("stopped", "job", job.Name, "token", lead.Epoch(), "why", err)
		_ = lead.Resign(ctx) // of a leadership that is lost already it says so, which is no news
	}
	if ctx.Err() == nil && session.Err() == nil { // a database that fails, say
		s.log.Warn("competes again", "job", job.Name, "why", err)
		pause(ctx, time.Second)
	}
}

// run executes the job in each of its minutes, beginning with those that its former runners left undone.
func (s *Server) run(ctx context.Context, lead *coord.Leadership, job Job) error {
	ctx, cancel := both(ctx, lead.Context())
	defer cancel()
	token := lead.Epoch()
	last, err := s.ledger.TakeOver(ctx, job.Name, token)
	if err != nil {
		return err
	}
	s.log.Info("running", "job", job.Name, "token", token, "minute", last)
	if earliest := s.clock.Now().Add(-catchUp); last.Before(earliest) {
		last = earliest
	}
	if last.Before(s.clock.First) {
		last = s.clock.First.Add(-time.Minute)
	}
	for {
		minute := job.Next(last)
		if err := s.clock.Wait(ctx, minute); err != nil {
			return err
		}
		if err := lead.Check(); err != nil { // whoever slept through the end of its lease stops here
			return err
		}
		if err := s.runOnce(ctx, Run{Job: job.Name, Minute: minute, Runner: s.name, Token: token}, job); err != nil {
			return err
		}
		last = minute
	}
}

// runOnce does the work and records it. A process may be frozen in here, after Check, for as long as it takes others to
// go on without it. Then the record is stale, and it is the guard that keeps it out: nothing in this process could.
func (s *Server) runOnce(ctx context.Context, run Run, job Job) error {
	s.log.Info("working", "job", run.Job, "minute", run.Minute, "token", run.Token)
	s.work(job)

	// What was done is to be recorded, also when the leadership ends meanwhile: this outlives ctx.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dbTimeout)
	defer cancel()
	err := s.ledger.Record(ctx, run)
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		s.log.Info("refused", "job", run.Job, "minute", run.Minute, "token", run.Token, "highest", stale.Highest)
		return errors.Join(err, s.ledger.NoteRefused(ctx, run, stale.Highest))
	}
	if err == nil {
		s.log.Info("ran", "job", run.Job, "minute", run.Minute, "token", run.Token)
	}
	return err
}

// reportLeadership says when this server begins to lead the cell itself.
func (s *Server) reportLeadership(ctx context.Context) {
	for leading := false; ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		status := s.node.Status()
		if status.IsLeader && !leading {
			s.log.Info("leads the cell", "term", status.Term)
		}
		leading = status.IsLeader
	}
}

// both returns a context that ends with the first of two, with its cause, and has a's values.
func both(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(a)
	stop := context.AfterFunc(b, func() { cancel(context.Cause(b)) })
	return ctx, func() { stop(); cancel(nil) }
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
