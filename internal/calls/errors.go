package calls

import (
	"errors"
	"strings"
	"unicode/utf8"
)

var (
	// ErrNotSent: the request has not left this node.
	ErrNotSent = errors.New("not sent")
	// ErrNoReply: the request may have reached the peer, and what it did is not known.
	ErrNoReply = errors.New("no reply")
	// ErrClosed: this Exchange is closed, or the node's switch was thrown.
	ErrClosed = errors.New("closed")
	// ErrTooLarge: a request or a reply does not fit a frame. The request was not sent, or its reply was not.
	ErrTooLarge = errors.New("message too large")
	// ErrBusy: the peer has too many requests of this node under way and did nothing about this one.
	ErrBusy = errors.New("peer is busy")
	// ErrUnknownMethod: the peer does not know the method and did nothing.
	ErrUnknownMethod = errors.New("unknown method")
)

// NotLeaderError is the answer of a server that cannot serve a request because it does not lead. It did nothing.
type NotLeaderError struct {
	Leader string // the id of the server that it believes to lead; "": it knows of none
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return "not the leader, and none is known"
	}
	return "not the leader, try " + e.Leader
}

// RemoteError is any other error that the peer's handler answered with.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "peer: " + e.Text }

// maxErrorText bounds the text of an error that travels.
const maxErrorText = 1024

// status is how a request ended, as it travels.
type status = uint64

const (
	statusOK            status = 0
	statusError         status = 1
	statusNotLeader     status = 2
	statusBusy          status = 3
	statusUnknownMethod status = 4
	statusTooLarge      status = 5
)

// statusOf turns an error into a status and its text.
func statusOf(err error) (status, string) {
	var notLeader *NotLeaderError
	switch {
	case errors.As(err, &notLeader):
		return statusNotLeader, clip(notLeader.Leader)
	case errors.Is(err, ErrBusy):
		return statusBusy, ""
	case errors.Is(err, ErrUnknownMethod):
		return statusUnknownMethod, ""
	case errors.Is(err, ErrTooLarge):
		return statusTooLarge, ""
	}
	return statusError, clip(err.Error())
}

// errorOf is its inverse. A status that is not known is an error like any other.
func errorOf(s status, text []byte) error {
	switch s {
	case statusOK:
		return nil
	case statusNotLeader:
		return &NotLeaderError{Leader: clip(string(text))}
	case statusBusy:
		return ErrBusy
	case statusUnknownMethod:
		return ErrUnknownMethod
	case statusTooLarge:
		return ErrTooLarge
	}
	return &RemoteError{Text: clip(string(text))}
}

// clip cuts a text to maxErrorText bytes, between two characters.
func clip(s string) string {
	if n := maxErrorText; len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
