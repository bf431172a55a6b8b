package raftnode

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// repeatAfter is how long the same message of raft's stays at Debug after it was logged at Warn.
const repeatAfter = time.Minute

// raftLogger writes what raft logs to a slog.Logger. Raft reports every failed heartbeat as an error: its errors become
// warnings, each message once a minute, its warnings Info, and the rest Debug.
type raftLogger struct {
	out  *slog.Logger
	name string
	args []any
	last *lastLogged
}

type lastLogged struct {
	mu sync.Mutex
	at map[string]time.Time // by message; raft's are constants, so there are few
}

func newRaftLogger(out *slog.Logger) hclog.Logger {
	return &raftLogger{out: out, name: "raft", last: &lastLogged{at: make(map[string]time.Time)}}
}

func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Error:
		if l.last.due(msg) {
			to = slog.LevelWarn
		}
	case hclog.Warn:
		to = slog.LevelInfo
	}
	if !l.out.Enabled(context.Background(), to) {
		return
	}
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	l.out.With(l.args...).Log(context.Background(), to, l.name+": "+msg, args...)
}

func (l *lastLogged) due(msg string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.at[msg]; ok && now.Sub(at) < repeatAfter {
		return false
	}
	l.at[msg] = now
	return true
}

func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLogger) IsTrace() bool { return l.enabled(slog.LevelDebug) }
func (l *raftLogger) IsDebug() bool { return l.enabled(slog.LevelDebug) }
func (l *raftLogger) IsInfo() bool  { return l.enabled(slog.LevelDebug) }
func (l *raftLogger) IsWarn() bool  { return l.enabled(slog.LevelInfo) }
func (l *raftLogger) IsError() bool { return l.enabled(slog.LevelWarn) }

func (l *raftLogger) enabled(level slog.Level) bool {
	return l.out.Enabled(context.Background(), level)
}

func (l *raftLogger) ImpliedArgs() []any { return l.args }

func (l *raftLogger) With(args ...any) hclog.Logger {
	c := *l
	c.args = append(append([]any(nil), l.args...), args...)
	return &c
}

func (l *raftLogger) Name() string { return l.name }

func (l *raftLogger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	c := *l
	c.name = name
	return &c
}

// SetLevel does nothing: the slog.Logger decides.
func (l *raftLogger) SetLevel(hclog.Level) {}

func (l *raftLogger) GetLevel() hclog.Level { return hclog.NoLevel }

func (l *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(nil), "", 0)
}

func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
